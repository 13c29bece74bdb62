"""`millstream doctor`: the problems of this machine, and of what a config needs, each with its remedy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.finding import Finding
from millstream.cli.options import optional_config_options
from millstream.cli.session import current_session
from millstream.extras import need
from millstream.plain_text import json_object, printable

if TYPE_CHECKING:
    from millstream.config.load import Loaded

__all__ = ["doctor"]


@click.command()
@optional_config_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(config: str | None, sets: tuple[str, ...], overlays: tuple[str, ...], as_json: bool) -> int:
    """Check this machine: packages, Spark and Java, disk, clock and caches; with CONFIG, also its sources and sinks.

    Prints the remedy of every problem, and exits with 1 if there is a problem. A `note` is no problem: something is
    missing that is not known to be needed. The command reads no records.
    """
    from millstream.errors import ConfigError

    loaded, broken = None, []
    if config is not None:
        from millstream.config.load import load_config

        try:
            loaded = load_config(config, sets, overlays=overlays)
            current_session().redact = loaded.redact
        except ConfigError as error:
            broken = [_problem("config", str(error), f"correct the config; `millstream validate {config}` checks it")]
    found = [*_machine(loaded), *broken, *(_connections(loaded) if loaded is not None else ())]
    problems = sum(finding.level == "problem" for finding in found)
    if as_json:
        click.echo(json_object({"problems": problems, "findings": [asdict(finding) for finding in found]}))
    else:
        click.echo(printable("\n".join(_lines(found, problems))))
    return 1 if problems else 0


def _machine(loaded: Loaded | None) -> Iterator[Finding]:
    from millstream.cli.cache_checks import check_caches
    from millstream.cli.disk_checks import check_clock, check_disk
    from millstream.cli.package_checks import check_packages
    from millstream.cli.spark_checks import check_java, check_spark

    on_spark = loaded is not None and loaded.config.engine.type == "spark"
    installed = need("spark", "Spark") is None
    yield from check_packages()
    yield check_spark(needed=on_spark)
    yield check_java(needed=on_spark or (loaded is None and installed))
    yield from check_disk(Path.cwd())
    yield from check_clock(Path.cwd())
    yield from check_caches()


def _connections(loaded: Loaded) -> Iterator[Finding]:
    """Check the steps of a config, and open its sources and sinks for reading, without waiting for a server."""
    from millstream.errors import MillstreamError
    from millstream.guarantees.validation import checked_graph
    from millstream.log.checked_source import open_log
    from millstream.log.contracts import OpenContext
    from millstream.runs.sinks import sink_configs

    try:
        graph = checked_graph(loaded)
    except MillstreamError as error:
        fix = f"correct the config; `millstream validate {loaded.file}` checks it"
        yield _problem("config", loaded.redact(str(error)), fix)
        return
    yield _ok("config", f"{loaded.file} is valid")
    config = loaded.config
    with tempfile.TemporaryDirectory(prefix="millstream-doctor-") as cache:
        for source in config.logs:
            subject = "source" if source.name == "source" else f"source {source.name}"
            context = OpenContext(loaded.folder, Path(cache) / source.name, config.name, fail_fast=True)
            context.cache.mkdir()
            try:
                with closing(open_log(source.config, context)) as log:
                    partitions = log.partitions()
                    for partition in partitions:
                        log.end(partition.name)
            except Exception as error:  # any error of a source is a finding
                yield _unreachable(subject, error, loaded)
            else:
                yield _ok(subject, f"{source.config.type}, {_partitions(len(partitions))}")
    context = OpenContext(loaded.folder, Path("runs") / config.name, config.name, fail_fast=True)
    for output, sink in sink_configs(config, graph).items():
        try:
            sink.progress(context, output)
        except Exception as error:  # any error of a sink is a finding
            yield _unreachable(f"sink {output}", error, loaded)
        else:
            yield _ok(f"sink {output}", f"{sink.type}, {loaded.redact(sink.location(context, output))}")


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _ok(subject: str, text: str) -> Finding:
    return Finding(subject, "ok", text)


def _problem(subject: str, text: str, fix: str) -> Finding:
    return Finding(subject, "problem", text, fix)


def _unreachable(subject: str, error: Exception, loaded: Loaded) -> Finding:
    text = loaded.redact(str(error)) or type(error).__name__
    return _problem(subject, text, "start the server, create what is missing, or correct the config")


def _lines(found: Sequence[Finding], problems: int) -> Iterable[str]:
    width = max(len(finding.subject) for finding in found)
    for finding in found:
        first, *rest = finding.text.splitlines()
        yield f"{finding.level:<7}  {finding.subject:<{width}}  {first}"
        yield from (f"{'':<{width + 11}}{line}" for line in rest)
        if finding.fix:
            yield f"{'':<{width + 11}}to do: {finding.fix}"
    yield "no problems" if not problems else f"{problems} problem{'s' if problems > 1 else ''}"

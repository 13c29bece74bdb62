"""`millstream ls`: a table of run directories."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.plain_text import json_object, one_line

if TYPE_CHECKING:
    from millstream.runs.watch.run_list import RunEntry

__all__ = ["ls"]

_DEFAULT = "runs"
_HEADINGS = ("NAME", "STATE", "ENGINE", "DELIVERY", "RECORDS", "ACCURACY", "AGE")
_TO_THE_RIGHT = ("RECORDS", "ACCURACY", "AGE")


@click.command()
@click.argument("runs", metavar="[RUNS]", required=False, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a run, each on its line.")
def ls(runs: str | None, as_json: bool) -> None:
    """List the run directories in the folder RUNS, which is `runs` unless given.

    The age is the time since the run has last written to its directory. The command opens no source and no sink.
    """
    from millstream.errors import MillstreamError
    from millstream.runs.watch.run_list import list_runs

    folder = Path(runs or _DEFAULT)
    if (folder / "run.json").exists():
        message = f"{folder} is a run directory, not a folder of them; `millstream status {folder}` shows it"
        raise MillstreamError(message)
    if runs is not None and not folder.is_dir():
        message = f"there is no folder {folder}; name the folder that holds run directories"
        raise MillstreamError(message)
    found = list_runs(folder, time.time())
    if as_json:
        for entry in found:
            click.echo(json_object(asdict(entry)))
    elif found:
        click.echo("\n".join(_table(found)))
    else:
        click.echo(one_line(f"no runs in {folder}"))


def _table(entries: Sequence[RunEntry]) -> Iterator[str]:
    rows = [_HEADINGS, *map(_cells, entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        cells = [
            f"{cell:>{width}}" if heading in _TO_THE_RIGHT else f"{cell:<{width}}"
            for heading, cell, width in zip(_HEADINGS, row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()
    for entry in entries:
        if entry.problem is not None:
            yield f"{one_line(entry.name)}: {one_line(entry.problem)}"


def _cells(entry: RunEntry) -> tuple[str, ...]:
    return (
        one_line(entry.name),
        entry.state,
        entry.engine or "-",
        entry.delivery or "-",
        "-" if entry.records is None else f"{entry.records:,}",
        "-" if entry.accuracy is None else f"{entry.accuracy:.4f}",
        "-" if entry.age is None else _age(entry.age),
    )


def _age(seconds: float) -> str:
    """Return an age in its largest unit.

    >>> [_age(seconds) for seconds in (0.4, 119, 7000, 100_000, 1_000_000)]
    ['0 s', '119 s', '116 min', '27 h', '11 d']
    """
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{int(seconds / size)} {unit}"
    return f"{int(seconds / 86_400)} d"

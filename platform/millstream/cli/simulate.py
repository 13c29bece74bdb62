"""`millstream simulate`: checks a pipeline's guarantee in simulated runs with crashes."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.plain_text import json_object, one_line

if TYPE_CHECKING:
    from millstream.config.load import Loaded
    from millstream.engines.simulated.simulation import Outcome
    from millstream.engines.simulated.world.logs import Recorded

__all__ = ["simulate"]

_SCHEDULES, _RECORDS = 100, 300


@click.command()
@config_options
@click.option("--seed", default=0, show_default=True, metavar="N", help="The first seed; each seed is one schedule.")
@click.option(
    "--schedules",
    type=click.IntRange(1),
    default=_SCHEDULES,
    show_default=True,
    metavar="K",
    help="Number of schedules to run.",
)
@click.option(
    "--records",
    type=click.IntRange(1),
    default=_RECORDS,
    show_default=True,
    metavar="N",
    help="Number of records from the beginning of each source.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes that run schedules.",
)
@click.option("--trace", is_flag=True, help="Print every step of one schedule, the one of --seed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def simulate(
    config: str,
    sets: tuple[str, ...],
    overlays: tuple[str, ...],
    seed: int,
    schedules: int,
    records: int,
    jobs: int,
    trace: bool,
    as_json: bool,
) -> int:
    """Run the pipeline of CONFIG in simulated schedules, and check its delivery guarantee in each.

    The simulation runs the code of a real run with workers; the processes, the clock and the crashes are simulated,
    in an order that the seed decides. It does not touch the sinks or run directories of CONFIG. The command exits
    with 1 at the first schedule that breaks the guarantee.
    """
    from millstream.config.load import load_config

    if trace and as_json:
        message = "--trace prints lines, --json one object; leave out one of the two"
        raise click.UsageError(message)
    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    _check(loaded)
    recorded = _read_records(loaded, records)
    if trace:
        return _trace(loaded, recorded, seed)
    from millstream.engines.simulated.parallel_seeds import outcomes

    began, done = time.monotonic(), []
    seeds = range(seed, seed + schedules)
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=schedules, file=sys.stderr, label=loaded.config.name, hidden=hidden) as bar:
        for outcome in outcomes(loaded.config, recorded, seeds, jobs):
            done.append(outcome)
            bar.update(1)
            if outcome.wrong:
                break
    result = _as_object(loaded, done, time.monotonic() - began)
    if as_json:
        click.echo(json_object(result))
    else:
        _show(result, _command(config, sets, overlays, records))
    return 1 if done[-1].wrong else 0


def _check(loaded: Loaded) -> None:
    """Refuse configs that `validate` refuses, and steps that are not deterministic."""
    from millstream.config.document import Problem
    from millstream.guarantees.validation import checked_graph

    problems = [
        Problem(
            node.path,
            f"step {node.name!r} is not deterministic, so a simulation cannot know the right results; "
            "remove or replace the step with --set",
        )
        for node in checked_graph(loaded, packages=False).steps
        if not node.traits.deterministic
    ]
    if problems:
        loaded.refuse(problems)


def _read_records(loaded: Loaded, most: int) -> Recorded:
    """Read the first records of the config's sources."""
    from millstream.engines.simulated.world.logs import recorded
    from millstream.errors import MillstreamError
    from millstream.log.checked_source import open_log
    from millstream.log.contracts import OpenContext

    with ExitStack() as stack:
        cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-simulate-")))
        logs = {}
        for source in loaded.config.logs:
            context = OpenContext(loaded.folder, cache / source.name, loaded.config.name, fail_fast=True)
            logs[source.name] = open_log(source.config, context)
            stack.callback(logs[source.name].close)
        found = recorded(logs, most)
    if not any(partition.size for partitions in found.values() for partition in partitions):
        message = f"{loaded.file}: its sources have no records yet, so there is nothing to simulate"
        raise MillstreamError(message)
    return found


def _trace(loaded: Loaded, recorded: Recorded, seed: int) -> int:
    from millstream.engines.simulated.simulation import Simulation

    with tempfile.TemporaryDirectory(prefix="millstream-simulate-") as folder:
        simulation = Simulation(loaded.config, recorded, Path(folder))
        outcome = simulation.run(seed, lambda line: click.echo(one_line(loaded.redact(line))))
    if not outcome.wrong:
        click.echo(f"seed {seed}  keeps the promise of {loaded.config.guarantee.delivery}")
    return 1 if outcome.wrong else 0


def _as_object(loaded: Loaded, done: list[Outcome], seconds: float) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    faults: Counter[str] = Counter()
    for outcome in done:
        faults.update({str(target): count for target, count in outcome.injected.items()})
    wrong, differences = done[-1], [loaded.redact(line) for line in done[-1].wrong]
    return {
        "pipeline": loaded.config.name,
        "delivery": str(loaded.config.guarantee.delivery),
        "schedules": len(done),
        "seconds": round(seconds, 3),
        "schedules_per_minute": round(60 * len(done) / seconds) if seconds else None,
        "starts": sum(outcome.starts for outcome in done),
        "epochs": sum(outcome.epochs for outcome in done),
        "steps": sum(outcome.steps for outcome in done),
        "faults": dict(faults),
        "wrong": {"seed": wrong.seed, "differences": differences} if differences else None,
    }


def _show(result: Mapping[str, Any], command: str) -> None:
    faults = ", ".join(f"{target} {count:,} times" for target, count in sorted(result["faults"].items())) or "none"
    click.echo(
        f"{result['pipeline']}: {result['schedules']:,} schedules in {result['seconds']:.1f} s "
        f"({result['schedules_per_minute']:,} a minute), {result['epochs']:,} epochs, {result['steps']:,} steps"
    )
    click.echo(f"  faults: {faults}")
    wrong = result["wrong"]
    if wrong is None:
        click.echo(f"  every schedule keeps the promise of {result['delivery']}")
        return
    click.echo(f"  seed {wrong['seed']} breaks the promise of {result['delivery']}:")
    for line in wrong["differences"]:
        click.echo(one_line(f"    {line}"))
    click.echo(one_line(f"  {command} --seed {wrong['seed']} --trace"))


def _command(config: str, sets: tuple[str, ...], overlays: tuple[str, ...], records: int) -> str:
    """Return the command that repeats a schedule, without its seed."""
    options = [word for file in overlays for word in ("--with", file)]
    options += [word for text in sets for word in ("--set", text)]
    options += [] if records == _RECORDS else ["--records", str(records)]
    return shlex.join(["millstream", "simulate", config, *options])

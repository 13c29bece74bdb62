"""`millstream simulate`: a pipeline's guarantee, tried in any number of simulated runs with crashes."""

from __future__ import annotations

import json
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

from millstream.cli.options import config_file, sets

if TYPE_CHECKING:
    from millstream.config.load import Loaded
    from millstream.engines.simulated.run.simulation import Outcome
    from millstream.engines.simulated.world.logs import Recorded

__all__ = ["simulate"]

_SCHEDULES, _RECORDS = 100, 300


@click.command()
@config_file
@sets
@click.option("--seed", default=0, show_default=True, metavar="N", help="The first seed: each is one schedule.")
@click.option(
    "--schedules", type=click.IntRange(1), default=_SCHEDULES, show_default=True, metavar="K", help="How many to run."
)
@click.option(
    "--records",
    type=click.IntRange(1),
    default=_RECORDS,
    show_default=True,
    metavar="N",
    help="How many records of each source are taken, from its beginning.",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Processes that share the work."
)
@click.option("--trace", is_flag=True, help="Print every step of one schedule, that of --seed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def simulate(
    config: str,
    sets: tuple[str, ...],
    seed: int,
    schedules: int,
    records: int,
    jobs: int,
    trace: bool,
    as_json: bool,
) -> int:
    """Run CONFIG's pipeline in simulated schedules, and see whether each comes out as its delivery promises.

    The code is that of a real run with workers; the processes, the clock and the crashes are simulated, in an order
    that the seed decides. Nothing of CONFIG's sinks or run directories is touched. Exits with 1 at the first schedule
    that differs.
    """
    from millstream.config.load import load_config

    if trace and as_json:
        message = "--trace prints lines, --json one object; leave one of the two out"
        raise click.UsageError(message)
    loaded = load_config(config, sets)
    _check(loaded)
    recorded = _recorded(loaded, records)
    if trace:
        return _traced(loaded, recorded, seed)
    from millstream.engines.simulated.run.parallel_seeds import outcomes

    began, done = time.monotonic(), []
    seeds = range(seed, seed + schedules)
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=schedules, file=sys.stderr, label=loaded.config.name, hidden=hidden) as bar:
        for outcome in outcomes(loaded.config, recorded, seeds, jobs):
            done.append(outcome)
            bar.update(1)
            if outcome.wrong:
                break
    told = _told(loaded, done, time.monotonic() - began)
    if as_json:
        click.echo(json.dumps(told))
    else:
        _show(told, _command(config, sets, records))
    return 1 if done[-1].wrong else 0


def _check(loaded: Loaded) -> None:
    """Refuse what `validate` refuses, and steps whose results cannot be known beforehand."""
    from millstream.config.document import Problem
    from millstream.guarantees.validation import checked_graph

    problems = [
        Problem(
            node.path,
            f"step {node.name!r} is not deterministic, so no simulation can tell what its results are to be; "
            "leave it out with --set, or put another in its place",
        )
        for node in checked_graph(loaded).steps
        if not node.traits.deterministic
    ]
    if problems:
        loaded.refuse(problems)


def _recorded(loaded: Loaded, most: int) -> Recorded:
    """The first records of the config's sources, read once."""
    from millstream.engines.simulated.world.logs import recorded
    from millstream.errors import MillstreamError
    from millstream.log.contracts import OpenContext

    with ExitStack() as ending:
        cache = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="millstream-simulate-")))
        logs = {}
        for source in loaded.config.logs:
            context = OpenContext(loaded.base, cache / source.name, loaded.config.name, fail_fast=True)
            logs[source.name] = source.config.open(context)
            ending.callback(logs[source.name].close)
        found = recorded(logs, most)
    if not any(part.size for parts in found.values() for part in parts):
        message = f"{loaded.file}: its sources have no records yet, so there is nothing to simulate"
        raise MillstreamError(message)
    return found


def _traced(loaded: Loaded, recorded: Recorded, seed: int) -> int:
    from millstream.engines.simulated.run.simulation import Simulation

    with tempfile.TemporaryDirectory(prefix="millstream-simulate-") as folder:
        outcome = Simulation(loaded.config, recorded, Path(folder)).run(seed, click.echo)
    if not outcome.wrong:
        click.echo(f"seed {seed}  as {loaded.config.guarantee.delivery} promises")
    return 1 if outcome.wrong else 0


def _told(loaded: Loaded, done: list[Outcome], seconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    faults: Counter[str] = Counter()
    for outcome in done:
        faults.update({str(target): count for target, count in outcome.injected.items()})
    wrong = done[-1]
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
        "wrong": {"seed": wrong.seed, "differences": list(wrong.wrong)} if wrong.wrong else None,
    }


def _show(told: Mapping[str, Any], command: str) -> None:
    faults = ", ".join(f"{target} {count:,} times" for target, count in sorted(told["faults"].items())) or "none"
    click.echo(
        f"{told['pipeline']}: {told['schedules']:,} schedules in {told['seconds']:.1f} s "
        f"({told['schedules_per_minute']:,} a minute), {told['epochs']:,} epochs, {told['steps']:,} steps"
    )
    click.echo(f"  faults: {faults}")
    wrong = told["wrong"]
    if wrong is None:
        click.echo(f"  each came out as {told['delivery']} promises")
        return
    click.echo(f"  seed {wrong['seed']} did not come out as {told['delivery']} promises:")
    for line in wrong["differences"]:
        click.echo(f"    {line}")
    click.echo(f"  {command} --seed {wrong['seed']} --trace")


def _command(config: str, sets: tuple[str, ...], records: int) -> str:
    """The command that is to show a seed."""
    given = [part for text in sets for part in ("--set", text)]
    given += [] if records == _RECORDS else ["--records", str(records)]
    return shlex.join(["millstream", "simulate", config, *given])

"""`millstream status`: the progress of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click

from millstream.api.run import open_run_as_given
from millstream.cli.accuracy import accuracy_lines
from millstream.cli.shadow_lines import shadow_lines
from millstream.plain_text import json_object, one_line
from millstream.runs.watch.run_stats import RunStats
from millstream.runs.watch.run_status import RunStatus

__all__ = ["status"]

_STATES = {
    "running": "running, process {process}",
    "ended": "ended cleanly; run it again to read new records",
    "interrupted": "interrupted; run it again to recover",
    "forked": "a fork that was not started yet; run it",
    "failed": "ended with the error below; correct it and run it again",
}
_MOST_PARTITIONS = 20


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(run: str, as_json: bool) -> None:
    """Show the progress of RUN, which may be running or may have crashed. The command changes nothing."""
    found = open_run_as_given(run).status()
    if as_json:
        partitions = [{**asdict(partition), "behind": partition.behind} for partition in found.partitions]
        click.echo(json_object({**asdict(found), "partitions": partitions, "behind": found.behind}))
    else:
        click.echo("\n".join(map(one_line, _lines(found))))


def _lines(found: RunStatus) -> Iterator[str]:
    yield f"{found.run}: {_STATES[found.state].format(process=found.process)}"
    yield f"  pipeline   {found.pipeline} on {found.engine}, {found.delivery}"
    epochs = found.epochs
    yield (
        f"  epochs     {epochs.cut:,} cut, {epochs.processed:,} processed, "
        f"{epochs.checkpointed:,} in checkpoints, {epochs.committed:,} committed"
    )
    again = f"; {found.processed:,} processed, repeats included" if found.processed != found.records else ""
    yield f"  records    {found.records:,}{again}"
    yield from accuracy_lines(found.accuracy, found.baselines, steps=found.steps)
    for step, shadow in found.shadows.items():
        yield from shadow_lines(step, shadow)
    if found.stats is not None:
        yield from _stats(found.stats)
    age = "" if found.checkpoint_age is None else f", {_duration(found.checkpoint_age)} ago"
    yield f"  last checkpoint  {found.checkpointed_at or 'none yet'}{age}"
    if found.savepoints:
        named = ", ".join(f"{name} (checkpoint {number})" for name, number in found.savepoints.items())
        yield f"  savepoints  {named}"
    behind = "" if found.behind is None else f"{found.behind:,} records"
    yield f"  behind     {behind or 'unknown'}"
    for source, reason in found.unknown.items():
        yield f"    {source}: {reason}"
    for partition in found.partitions[:_MOST_PARTITIONS]:
        lag = "" if partition.end is None else f" of {partition.end:,}, {partition.behind:,} behind"
        yield f"    {partition.source}/{partition.partition}  at {partition.position:,}{lag}"
    if len(found.partitions) > _MOST_PARTITIONS:
        yield f"    and {len(found.partitions) - _MOST_PARTITIONS:,} more; --json has them all"
    if watermark := found.event_time.describe():
        yield f"  watermark  {watermark}"
    if found.rounds:
        cycles = ", ".join(f"{number:,} of the cycle {cycle}" for cycle, number in found.rounds.items())
        yield f"  rounds     {cycles}, in the last epoch"
    yield "  outputs"
    width = max((len(name) for name in found.outputs), default=0)
    counts = {name: "?" if output.rows is None else f"{output.rows:,}" for name, output in found.outputs.items()}
    most = max(map(len, counts.values()), default=0)
    for name, output in found.outputs.items():
        yield f"    {name:<{width}}  {counts[name]:>{most}} rows  {output.location}"
    if found.error is not None:
        yield from _error(found.error)


def _error(message: str) -> Iterator[str]:
    first, *others = message.splitlines() or [""]
    yield f"  error      {first}"
    for line in others:
        yield f"             {line}"


def _stats(run_stats: RunStats) -> Iterator[str]:
    """Yield the lines about the current speed and health of a running run."""
    speed, median, most = run_stats.records_per_second, run_stats.latency_median, run_stats.latency_99
    yield f"  speed      {'no epoch is finished yet' if speed is None else f'{speed:,.0f} records/s'}"
    if median is not None and most is not None:
        latency = f"{_duration(median)} from an epoch's cut until it is finished, 99 % within {_duration(most)}"
        yield f"  latency    {latency}"
    yield f"  in flight  {run_stats.epochs_in_flight:,} epoch{'s' if run_stats.epochs_in_flight != 1 else ''}"
    last = f"; the last: {run_stats.last_restart}" if run_stats.last_restart is not None else ""
    yield f"  restarts   {run_stats.restarts:,}{last}"


def _duration(seconds: float) -> str:
    """Return a duration as text for people.

    >>> [_duration(seconds) for seconds in (0.0023, 3.21, 75.0, 5000.0, 200000.0)]
    ['2.3 ms', '3.21 s', '75 s', '83 min', '56 h']
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"

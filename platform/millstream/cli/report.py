"""The report for people at the end of a run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from millstream.cli.accuracy import accuracy_lines
from millstream.cli.progress_figures import Figures
from millstream.log.contracts import OpenContext
from millstream.runs.sinks import sink_configs
from millstream.runs.summary import Summary
from millstream.runs.watch.event_time import event_time_status
from millstream.runs.watch.observer import Watched

__all__ = ["program", "report"]

_DIGEST = 12


def report(summary: Summary, watched: Watched, figures: Figures, speed: float | None) -> Iterator[str]:
    """Yield the lines of the report; `speed` is the records per second after the first epoch, if it is known."""
    run = shlex.quote(summary.run)
    new = figures.finished > 0
    if not new and summary.ended == "idle":
        yield f"no new records in {_source_names(watched)}; --fresh starts over"
    elif not new:
        yield "stopped before the first epoch was finished; the same command continues"
    elif summary.ended == "stopped":
        yield f"stopped after epoch {figures.epochs - 1}; the same command continues from there"
    yield f"{summary.pipeline} on {summary.engine}, {summary.delivery}"
    again = f"; {summary.processed:,} processed, repeats included" if summary.processed != summary.records else ""
    epochs = "1 epoch" if figures.epochs == 1 else f"{figures.epochs:,} epochs"
    yield f"  records    {summary.records:,} in {epochs}{again}"
    rejects = summary.delivered.get("rejects", 0)
    if rejects and rejects >= summary.records / 2:
        command = f"{program()} read {run} rejects"
        yield f"  rejects    {rejects:,}, at least half of the records: `{command}` prints step and reason of each"
        if predictions := summary.delivered.get("predictions"):
            kept = "records have a prediction; a record that only a later step rejects, such as popularity, keeps it"
            yield f"             {predictions:,} {kept}"
    if summary.records:
        yield from _nothing_learned(summary, watched)
    event_time = event_time_status(watched.epoch_log.totals)
    if watched.graph.waits_for_time and event_time.held_by is not None:
        yield f"  watermark  {event_time.describe()}"
    how = ", each record predicted before it was learned"
    yield from accuracy_lines(summary.accuracy, summary.baselines, how, summary.steps)
    if new:
        later = f"; {speed:,.0f}/s after the first epoch" if speed else ""
        yield f"  speed      {summary.records_per_second:,.0f} records/s, {summary.seconds:.1f} s in all{later}"
    models = {f" of {step}": each["model"] for step, each in summary.steps.items()} or {"": summary.model}
    for step, model in models.items():
        if model is not None:
            yield f"  model      {_short(model)}{step}"
    yield f"  state      {_short(summary.state)}"
    yield "  outputs"
    yield from _outputs(summary, _locations(watched))
    yield f"the run directory is {summary.run}; commands to try:"
    yield from _next_commands(summary, run)


def _nothing_learned(summary: Summary, watched: Watched) -> Iterator[str]:
    """Yield the reason why a model has learned nothing."""
    accuracies = {step: each["accuracy"] for step, each in summary.steps.items()}
    for node in watched.graph.steps:
        if not hasattr(node.step, "ask") or accuracies.get(node.name, summary.accuracy) is not None:
            continue
        predictions = summary.delivered.get(f"{node.name}.predictions", summary.delivered.get("predictions"))
        if predictions == 0:
            yield f"  labels     no record reached step {node.name!r}: all were dropped or rejected before it"
        else:
            of = f" of step {node.name!r}" if accuracies else ""
            learned = f"no record{of} had one, so the model has learned nothing"
            yield f"  labels     {learned}; check `fields` of the source"


def _outputs(summary: Summary, where: Mapping[str, str]) -> Iterator[str]:
    name_width = max(map(len, summary.delivered), default=0)
    counts = {name: f"{rows:,}" for name, rows in summary.delivered.items()}
    count_width = max(map(len, counts.values()), default=0)
    for name, count in counts.items():
        digest = _short(summary.outputs[name])
        yield f"    {name:<{name_width}}  {count:>{count_width}} rows  {digest}  {where[name]}"


def _short(digest: str) -> str:
    return digest.partition("-")[2][:_DIGEST]


def _next_commands(summary: Summary, run: str) -> Iterator[str]:
    made = {name.rpartition(".")[2]: name for name, rows in summary.delivered.items() if rows}
    output = next((made[short] for short in ("topics", "predictions") if short in made), None)
    if output is not None:
        yield f"  {program()} read {run} {output} | tail -n 5"
    if summary.model is not None:
        step = f" --step {next(iter(summary.steps))}" if summary.steps else ""
        yield f'  {program()} predict {run} "some text"{step}'
    yield f"  {program()} status {run}"


def program() -> str:
    """Return the command that starts `millstream`: its name, or its path if it is not on PATH."""
    installed = Path(sys.executable).with_name("millstream")
    found = shutil.which("millstream")
    if not installed.exists() or (found is not None and os.path.samefile(found, installed)):
        return "millstream"
    path = os.path.relpath(installed)
    return shlex.quote(str(installed) if path.startswith("..") else path)


def _locations(watched: Watched) -> dict[str, str]:
    """Return the location of each output."""
    context = OpenContext(watched.loaded.folder, watched.directory.path, watched.loaded.config.name)
    configs = sink_configs(watched.loaded.config, watched.graph)
    return {name: watched.loaded.redact(config.location(context, name)) for name, config in configs.items()}


def _source_names(watched: Watched) -> str:
    """Return the names of the sources for people: the path, topic or URL, otherwise name and type."""
    names = []
    for source in watched.loaded.config.logs:
        what = next(
            (getattr(source.config, key) for key in ("path", "topic", "url") if hasattr(source.config, key)), ""
        )
        names.append(str(what) if isinstance(what, str) and what else f"{source.name} ({source.config.type})")
    return watched.loaded.redact(", ".join(names))

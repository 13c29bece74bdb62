"""A fork: makes a run directory whose base is a checkpoint of another run, with another config if wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from millstream.config.load import Loaded
from millstream.errors import Contradiction, ForeignSink, Truncated
from millstream.guarantees.validation import checked_graph
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.log.epochs import EpochReader
from millstream.log.journal.durability import write_whole
from millstream.runs.base import RunBase, StoredState
from millstream.runs.config_difference import difference
from millstream.runs.directory import RunDirectory
from millstream.runs.fixed_parts import fixed_parts
from millstream.runs.fork.cuts import CopiedCuts
from millstream.runs.fork.kept_state import StepChange, step_changes
from millstream.runs.fork.point import ForkPoint, fork_point
from millstream.runs.fork.sources import SourceChange, opening_events, retired, source_changes
from millstream.runs.hand_over import resolved_models
from millstream.runs.identities import remember_sources
from millstream.runs.output_file import write_outputs
from millstream.runs.shadow.presence import check_shadows
from millstream.runs.sinks import in_run_directory, sink_configs, sink_keys
from millstream.runs.versions import versions
from millstream.state.model_version import OPTIONS
from millstream.state.version_store import VersionStore
from millstream.steps.graph import Graph
from millstream.steps.processor import EVENT_TIME

__all__ = ["Fork", "fork_run"]

_ATTEMPTS = 5
"""A run that goes on may drop a checkpoint while it is copied: then a newer one is taken."""
_WITHOUT_SHADOW = (
    "keep `shadow` in it, or fork at a checkpoint after that epoch, such as the one with which a run ends cleanly"
)


@dataclass(frozen=True)
class Fork:
    """A fork that was made. It begins after `epoch` of `original`, with the state of `checkpoint` (None: with nothing).

    `epochs` with `records` are replayed in the same cuts by its first start.
    """

    run: Path
    original: Path
    epoch: int
    checkpoint: int | None
    epochs: int
    records: int
    steps: Sequence[StepChange]
    sources: Sequence[SourceChange]


def fork_run(
    original: RunDirectory,
    loaded: Loaded,
    path: Path,
    *,
    at: int | str | None = None,
    from_start: bool = False,
    passed: Callable[[str], None] = lambda part: None,
) -> Fork:
    """Make a run directory at `path` that begins from a checkpoint of `original`; `passed` is called after each part.

    Until the last part, the folder is no run directory.
    """
    with loaded.redacting():
        loaded, _ = resolved_models(loaded, original.path)
        graph = checked_graph(loaded, begun=True)
        _refuse_taken_sinks(loaded, graph, path)
        with suppress(FileNotFoundError, Truncated):  # the run goes on; the fork itself tries again
            fork_point(original, at, from_start=from_start)  # a refusal leaves no folder
        directory = RunDirectory(path)
        directory.lock()
        with ExitStack() as ending:
            ending.callback(directory.release)
            directory.begin_fork()
            try:
                return _make(original, loaded, directory, graph, at, from_start, passed)
            except Exception:
                directory.refuse_fork()
                raise


def _make(
    original: RunDirectory,
    loaded: Loaded,
    directory: RunDirectory,
    graph: Graph,
    at: int | str | None,
    from_start: bool,
    passed: Callable[[str], None],
) -> Fork:
    passed("begun")
    with ExitStack() as opened:
        logs = _open_logs(loaded, directory, opened)
        for attempt in range(_ATTEMPTS):
            directory.clear_fork()
            try:
                made = _write(original, loaded, directory, graph, logs, at, from_start, passed)
            except (FileNotFoundError, Truncated):
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            break
        remember_sources(directory, logs)
    write_outputs(directory.output_file, graph.outputs)
    write_whole(directory.config, yaml.safe_dump(loaded.resolved(), sort_keys=False, allow_unicode=True))
    passed("config")
    directory.end_fork(fixed_parts(loaded), loaded.folder)
    passed("ended")
    return made


def _write(
    original: RunDirectory,
    loaded: Loaded,
    directory: RunDirectory,
    graph: Graph,
    logs: Mapping[str, Log],
    at: int | str | None,
    from_start: bool,
    passed: Callable[[str], None],
) -> Fork:
    point = fork_point(original, at, from_start=from_start)
    fixed = fixed_parts(loaded)
    sources = source_changes(original, fixed, logs, point.totals)
    if from_start:
        _refuse_other_sources(original, sources)
    totals, ranks = retired(point.totals, sources)
    totals.build = dict(versions(loaded.config))
    names = {rank: point.totals.partitions[rank].source for rank in ranks}
    left = {each.source for each in sources if not each.continues}
    cuts = CopiedCuts(totals, names, left, opening_events(sources, logs, ranks), sink_keys(loaded.config, graph))
    steps = step_changes(graph, original.fixed, fixed) if point.checkpoint is not None else []
    state, kept = None, {EVENT_TIME, *(each.step for each in steps if each.kept)}
    _refuse_options_of_versions(original, fixed, point, kept)
    if point.checkpoint is not None:
        sections = {step: chain for step, chain in point.checkpoint.sections.items() if step in kept}
        checkpoint = replace(point.checkpoint, sections=sections, shards=loaded.config.guarantee.shards)
        state = StoredState(point.checkpoints, checkpoint)
    totals.models = totals.models.of_steps(kept)
    origin = {"run": str(original.path.absolute()), "log": point.reader.id, "epoch": totals.base.epoch}
    RunBase(totals, state, cuts.epochs(point.epochs()), origin, VersionStore(original.models)).write(directory, passed)
    check_shadows(graph, EpochReader(directory.epochs).totals(), _WITHOUT_SHADOW)
    return Fork(
        run=directory.path,
        original=original.path,
        epoch=totals.base.epoch,
        checkpoint=totals.base.checkpoint,
        epochs=cuts.copied,
        records=cuts.records,
        steps=steps,
        sources=[replace(each, unread=cuts.unread[each.source]) for each in sources],
    )


def _open_logs(loaded: Loaded, directory: RunDirectory, ending: ExitStack) -> dict[str, Log]:
    logs: dict[str, Log] = {}
    for source in loaded.config.logs:
        context = OpenContext(loaded.folder, directory.cache(source.name), loaded.config.name, fail_fast=True)
        logs[source.name] = open_log(source.config, context)
        ending.callback(logs[source.name].close)
    return logs


def _refuse_taken_sinks(loaded: Loaded, graph: Graph, path: Path) -> None:
    """Refuse a sink with the rows of a run: the fork has an epoch log of its own."""
    context = OpenContext(loaded.folder, path, loaded.config.name, fail_fast=True)
    for output, sink in sink_configs(loaded.config, graph).items():
        if in_run_directory(sink, output, context):
            continue
        if (progress := sink.progress(context, output)) is not None:
            message = (
                f"sink {output!r} holds rows of another run (epoch log {progress.log}): "
                f"{sink.location(context, output)}; a fork is a run of its own, so give the sink another place"
            )
            raise ForeignSink(message)


def _refuse_other_sources(original: RunDirectory, sources: Sequence[SourceChange]) -> None:
    """Refuse to replay all epochs if a source of them is another log, or is not there."""
    for change in sources:
        if not change.continues and not change.added:
            message = (
                f"the cuts of {original.path} cannot be replayed from the start without its source {change.source!r}: "
                f"{change.reason}; use that source, or leave out --from-start"
            )
            raise Contradiction(message)


def _refuse_options_of_versions(
    original: RunDirectory, fixed: Mapping[str, Any], point: ForkPoint, kept: Collection[str]
) -> None:
    """Refuse other options of a model whose options are in the state, because they are not those of the old config."""
    if point.checkpoint is None:
        return
    before = {step["name"]: step.get("model") for step in original.fixed["steps"]}
    states = point.checkpoints.states(point.checkpoint)
    for step in fixed["steps"]:
        name, model = step["name"], step.get("model")
        if name in kept and model != before[name] and OPTIONS in states[name]:
            message = (
                f"the model of step {name!r} is {point.totals.models.versions[name].version}, which came with options "
                f"of its own, so a fork cannot change them: {difference(before[name], model, 'model')}; leave `model` "
                "as it was, or register a version with other options and let it enter as a shadow"
            )
            raise Contradiction(message)

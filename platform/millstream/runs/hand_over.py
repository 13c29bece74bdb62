"""The hand-over of a registered model to a new run, which continues at the positions up to which it was trained."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from millstream.config.load import Loaded
from millstream.errors import Contradiction
from millstream.log.contracts import Log
from millstream.log.epochs import Added, Epoch, EpochReader, Event, NewModel, PartitionName, SinkAdded, Totals
from millstream.registry.config_versions import Entering, fetch_versions, names_versions, with_models
from millstream.runs.base import RunBase
from millstream.runs.directory import RunDirectory
from millstream.runs.fixed_parts import PARTIAL_UNTIL
from millstream.runs.sinks import sink_keys
from millstream.runs.trained_logs import check_logs
from millstream.runs.version_checks import check_version
from millstream.state.version_store import VersionStore
from millstream.steps.graph import Graph

__all__ = ["hand_over", "has_begun", "resolved_models"]


def resolved_models(
    loaded: Loaded, run: Path, *, replay: Path | None = None, fresh: bool = False
) -> tuple[Loaded, Mapping[str, Entering]]:
    """The config with the models that it takes from a registry, and the versions with which a new run begins.

    A run that has begun keeps the models with which it began, and the time up to which its windows are partial; so do
    the replay and the fork of a run, also with another config.
    """
    known = RunDirectory(replay if replay is not None else run)
    if not names_versions(loaded):
        until = None if fresh or not _has_epochs(known) else known.fixed.get(PARTIAL_UNTIL)
        return with_models(loaded, {}, until if loaded.config.partial_until is None else None), {}
    if replay is None and (fresh or not has_begun(known)):
        return fetch_versions(loaded)
    models = {step["name"]: step["model"] for step in known.fixed["steps"] if "model" in step}
    return with_models(loaded, models, known.fixed.get(PARTIAL_UNTIL)), {}


def _has_epochs(run: RunDirectory) -> bool:
    return run.initialized and any(run.epochs.glob("*.journal"))


def hand_over(
    directory: RunDirectory,
    loaded: Loaded,
    graph: Graph,
    logs: Mapping[str, Log],
    entering: Mapping[str, Entering],
    warm: Mapping[str, Entering],
    clock: Callable[[], int],
) -> None:
    """Begin a run without epochs with these models; a start that was interrupted here begins again.

    The run reads its logs from the positions of the models in `entering`; those in `warm` have no positions. Refuses a
    version that was trained on other records or other features, and logs without the records that follow.
    """
    for step, each in entering.items():
        check_version(loaded, graph, step, each.uri, each.version)
    added: list[Event] = []
    for origin in list(entering.values())[:1]:
        for other in entering.values():
            if other.version.trained != origin.version.trained:
                message = (
                    f"{origin.uri} and {other.uri} were trained up to different positions; a run begins at one position"
                )
                raise Contradiction(message)
        added += _added(logs, origin)
    models = {**entering, **warm}
    sinks = [SinkAdded(key) for key in sink_keys(loaded.config, graph)]
    shutil.rmtree(directory.epochs, ignore_errors=True)
    versions = VersionStore(directory.models)
    events = [*added, *(_event(step, each, versions.put(each.version)) for step, each in models.items()), *sinks]
    origins = {name: {s: e.uri for s, e in each.items()} for name, each in (("models", entering), ("warm", warm))}
    RunBase(Totals(), None, [Epoch(0, {}, tuple(events), clock())], origins, versions).write(directory)


def has_begun(directory: RunDirectory) -> bool:
    """True if the run has cut an epoch."""
    return _has_epochs(directory) and EpochReader(directory.epochs).totals().next_epoch > 0


def _added(logs: Mapping[str, Log], entering: Entering) -> Iterator[Added]:
    """The partitions of all logs: at the positions of the version, those that it does not know at their beginning."""
    trained = entering.version.trained
    check_logs(logs, trained, entering.uri)
    for source, log in logs.items():
        parts = trained.get(source, {})
        for index, partition in enumerate(log.partitions()):
            number = partition.number if partition.number is not None else index
            part = parts.get(partition.name)
            at = log.beginning(partition.name) if part is None else part.upto
            yield Added(PartitionName(source, partition.name, number), at)


def _event(step: str, entering: Entering, digest: str) -> NewModel:
    version = entering.version
    trained = {source: {name: part.upto for name, part in parts.items()} for source, parts in version.trained.items()}
    return NewModel(step, entering.uri, digest, trained)

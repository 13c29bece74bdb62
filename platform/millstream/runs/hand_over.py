"""The hand-over of a registered model to a new run, which continues at the positions up to which it was trained."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.config.load import Loaded
from millstream.errors import AlteredLog, Contradiction, Truncated
from millstream.log.contracts import Log
from millstream.log.epochs import Added, Base, Epoch, EpochReader, Event, NewModel, PartitionName, SinkAdded, Totals
from millstream.registry.config_versions import Entering, fetch_versions, names_versions, with_models
from millstream.runs.base import RunBase, StoredState
from millstream.runs.checkpoint_model import way_to
from millstream.runs.directory import RunDirectory
from millstream.runs.fixed_parts import PARTIAL_UNTIL
from millstream.runs.model_versions import step_options
from millstream.runs.sinks import sink_keys
from millstream.runs.versions import versions as library_versions
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import finish
from millstream.state.checkpoints import Checkpoint, CheckpointReader
from millstream.state.layer_writer import LayerWriter
from millstream.state.layers import Layers
from millstream.state.model_version import Trained
from millstream.steps.graph import Graph

__all__ = ["hand_over", "has_begun", "resolved_models"]


def resolved_models(
    loaded: Loaded, run: Path, *, replay: Path | None = None, fresh: bool = False
) -> tuple[Loaded, Mapping[str, Entering]]:
    """The config with the models that it takes from a registry, and the versions with which a new run begins.

    A run that has begun keeps the models with which it began; so does the replay of a run.
    """
    if not names_versions(loaded):
        return loaded, {}
    known = RunDirectory(replay if replay is not None else run)
    if replay is None and (fresh or not has_begun(known)):
        return fetch_versions(loaded)
    models = {step["name"]: step["model"] for step in known.fixed["steps"] if "model" in step}
    return with_models(loaded, models, known.fixed.get(PARTIAL_UNTIL)), {}


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
        _check_features(loaded, graph, step, each)
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
    events = [*added, *(_event(step, each) for step, each in models.items()), *sinks]
    shutil.rmtree(directory.epochs, ignore_errors=True)
    folder = directory.cache("hand-over")
    state = _stored(folder, loaded, models, clock())
    totals = Totals(base=Base(-1, state.checkpoint.number), checkpoint=state.checkpoint.number)
    origins = {name: {s: e.uri for s, e in each.items()} for name, each in (("models", entering), ("warm", warm))}
    RunBase(totals, state, [Epoch(0, {}, tuple(events), clock())], origins).write(directory)
    shutil.rmtree(folder)


def has_begun(directory: RunDirectory) -> bool:
    """True if the run has cut an epoch."""
    if not directory.initialized or not any(directory.epochs.glob("*.journal")):
        return False
    return EpochReader(directory.epochs).totals().next_epoch > 0


def _check_features(loaded: Loaded, graph: Graph, step: str, entering: Entering) -> None:
    """Refuse a version whose records came through other steps than those of this pipeline."""
    node = graph.node(step)
    before = [step_options(loaded, each) for each in way_to(graph, node)]
    *trained, learner = entering.version.steps
    if learner["label"] != node.config.label:
        message = (
            f"{entering.uri} has learned the labels of the field {learner['label']!r}, and step {step!r} has `label: "
            f"{node.config.label}`: its classes mean something else here; use the same field"
        )
        raise Contradiction(message)
    if _without_names(before) == _without_names(trained):
        return
    message = (
        f"{entering.uri} was trained on the records of {_described(trained)}, and step {step!r} gets those of "
        f"{_described(before)}: its features mean something else here; use the same steps before it"
    )
    raise Contradiction(message)


def _without_names(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{key: value for key, value in each.items() if key != "name"} for each in steps]


def _described(steps: Sequence[Mapping[str, Any]]) -> str:
    """The steps in a few words."""
    shown = _without_names(steps)
    return ", then ".join(", ".join(f"{key}: {value}" for key, value in each.items()) for each in shown) or "the log"


def _added(logs: Mapping[str, Log], entering: Entering) -> Iterator[Added]:
    """The partitions of all logs: at the positions of the version, those that it does not know at their beginning."""
    trained = dict(entering.version.trained)
    if trained.keys() - logs.keys():
        message = (
            f"{entering.uri} was trained on the source {', '.join(sorted(trained.keys() - logs.keys()))}, and this "
            f"config reads {', '.join(logs)}; give the source the same name"
        )
        raise Contradiction(message)
    for source, log in logs.items():
        parts = dict(trained.get(source, {}))
        for index, partition in enumerate(log.partitions()):
            number = partition.number if partition.number is not None else index
            part = parts.pop(partition.name, None)
            if part is None:
                at = log.beginning(partition.name)
            else:
                _check_log(log, source, partition.name, part, entering.uri)
                at = part.upto
            yield Added(PartitionName(source, partition.name, number), at)
        if parts:
            message = f"{entering.uri} was trained on {source}/{next(iter(parts))}, which the source does not have"
            raise Contradiction(message)


def _check_log(log: Log, source: str, partition: str, part: Trained, uri: str) -> None:
    """Refuse a partition that is another log, or that lacks the records after the position."""
    try:
        first = log.resume(partition, part.upto)
    except Truncated as error:
        message = f"{uri} was trained up to offset {part.upto:,} of {source}/{partition}, and what follows is gone"
        raise Truncated(f"{message}: {error}; train a newer version") from None
    end = log.end(partition)
    if end < part.upto or (now := log.identity(partition, part.upto)) != part.identity:
        seen = f"it ends at {end:,}" if end < part.upto else f"then {part.identity[:80]}, now {now[:80]}"
        message = (
            f"{uri} was trained on another log: {source}/{partition} up to offset {part.upto:,} is not the one that it "
            f"has learned ({seen}); a model continues only on the log that it has learned"
        )
        raise AlteredLog(message)
    if first > part.upto:
        message = (
            f"{uri} was trained up to offset {part.upto:,} of {source}/{partition}, and the log now begins at "
            f"{first:,}: {first - part.upto:,} records that it has not learned are gone; train a newer version"
        )
        raise Truncated(message)


def _event(step: str, entering: Entering) -> NewModel:
    version = entering.version
    trained = {source: {name: part.upto for name, part in parts.items()} for source, parts in version.trained.items()}
    return NewModel(step, entering.uri, version.digest, trained)


def _stored(folder: Path, loaded: Loaded, entering: Mapping[str, Entering], now: int) -> StoredState:
    """A checkpoint before the first epoch, with the states of the models."""
    layers = Layers(folder / "layers", loaded.config.guarantee.shards)
    layers.folder.mkdir(parents=True, exist_ok=True)
    states = {step: dict(each.version.state) for step, each in entering.items()}
    sections = finish(LayerWriter(layers).write("000000-0000000000", states))
    checkpoint = Checkpoint(
        number=0,
        epoch=-1,
        applied=AppliedEpochs(),
        versions=library_versions(loaded.config),
        at=now,
        sections=sections,
        shards=loaded.config.guarantee.shards,
    )
    return StoredState(CheckpointReader(folder, 0), checkpoint)

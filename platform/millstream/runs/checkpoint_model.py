"""The model of a run's newest checkpoint, which predicts texts and learns nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import graph_of
from millstream.shadow_names import is_shadow
from millstream.state.checkpoints import Checkpoint, read_newest
from millstream.state.stored_states import States
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.steps.processor import restore_steps
from millstream.steps.text_model import Prediction, TextModel
from millstream.suggestions import suggestion

__all__ = ["CheckpointModel", "Prediction", "load_model", "way_to"]


@dataclass(frozen=True)
class CheckpointModel:
    """The steps up to the one that classifies, with the state of the checkpoint; `loaded` is the config of the run.

    `latest` is the greatest event time of the records up to the checkpoint; None if none has a time.
    """

    texts: TextModel
    checkpoint: Checkpoint
    latest: int | None
    loaded: Loaded

    @property
    def classify(self) -> Any:
        return self.texts.classify

    def predict(self, texts: Iterable[str], *, top: int = 1) -> list[Prediction]:
        """Return a prediction for each text, with its `top` labels; each text becomes a record with no other field."""
        with self.loaded.redacting():
            return self.texts.predict(texts, top=top)


def load_model(directory: RunDirectory, loaded: Loaded, step: str | None = None) -> CheckpointModel:
    """Load the model of the newest checkpoint, that of `step` if several steps classify.

    `MillstreamError` if the run has no model.
    """
    directory.check_epoch_log()
    graph = graph_of(loaded)
    model = _chosen(directory, graph, step)
    nodes = way_to(graph, model)
    first = (*nodes, model)[0]
    if "text" not in first.records.names:
        fields = ", ".join(graph.fields)
        message = f"the records of {directory.path} have no field 'text' to predict from; their fields are {fields}"
        raise MillstreamError(message)

    def restore(checkpoint: Checkpoint, states: States) -> tuple[Checkpoint, int | None]:
        event_time = restore_steps(graph, (*nodes, model), states)
        return checkpoint, event_time.latest

    with loaded.redacting():
        found = read_newest(directory.path, restore)
    if found is None:
        message = f"{directory.path} has no checkpoint yet; the run writes one with its first epochs"
        raise MillstreamError(message)
    return CheckpointModel(TextModel(f"the model of {directory.path}", nodes, model), *found, loaded)


def _chosen(directory: RunDirectory, graph: Graph, step: str | None) -> Node:
    """The step that classifies, that of this name if several do; a shadow only by its name."""
    found = {node.name: node for node in graph.steps if hasattr(node.step, "ask")}
    if not found:
        names = ", ".join(node.name for node in graph.steps)
        message = f"the pipeline of {directory.path} has no step that classifies; its steps are {names}"
        raise MillstreamError(message)
    champions = {name: node for name, node in found.items() if not is_shadow(name)}
    if step is None and len(champions) > 1:
        message = f"several steps of {directory.path} classify: {', '.join(found)}"
        raise MillstreamError(f"{message}; name one of them with `--step NAME`, in Python with `step`")
    if step is not None and step not in found:
        meant = suggestion(step, found, f"one of {', '.join(found)}")
        raise MillstreamError(f"no step {step!r} of {directory.path} classifies{meant}")
    return found[step] if step is not None else next(iter(champions.values()))


def way_to(graph: Graph, model: Node) -> list[Node]:
    """The steps through which a record comes to the model, by the first stream that each of them reads."""
    way: list[Node] = []
    node = model
    while (maker := graph.streams[node.reads[0]].maker) is not None:
        if maker != node.reads[0]:
            message = f"step {model.name!r} cannot predict from a text alone: it gets rows of {node.reads[0]!r}"
            raise MillstreamError(message)
        node = graph.node(maker)
        way.insert(0, node)
    return way

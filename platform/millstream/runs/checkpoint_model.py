"""The model of a run's newest checkpoint, which predicts texts and learns nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream import arguments
from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.records import OFFSET, PATH, RANK
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import graph_of
from millstream.state.checkpoints import Checkpoint, read_newest
from millstream.state.stored_states import States
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.steps.runner import process_batch
from millstream.suggestions import suggestion

__all__ = ["CheckpointModel", "Prediction", "load_model"]


@dataclass(frozen=True)
class Prediction:
    """The prediction for one text; `predicted` is None if a step before the model removed the record."""

    text: str
    predicted: str | None
    probability: float | None
    top: tuple[tuple[str, float], ...]
    """The likeliest labels with their probabilities, the likeliest first, as many as were asked for."""


class _TextOnly:
    """The position, for error messages, of records that were made from texts."""

    def of_record(self, rank: int, offset: int) -> str:
        return "a record that has only a text"

    def of_batch(self, records: pa.Table) -> str:
        return "on a record that has only a text"


@dataclass(frozen=True)
class CheckpointModel:
    """The steps up to the one that classifies, with the state of the newest checkpoint."""

    run: Path
    records: pa.Schema
    before: Sequence[Node]
    node: Node
    loaded: Loaded

    @property
    def classify(self) -> Any:
        return self.node.step

    def predict(self, texts: Iterable[str], *, top: int = 1) -> list[Prediction]:
        """Return a prediction for each text, with its `top` labels; each text becomes a record with no other field."""
        checked, most = arguments.texts("texts", texts), arguments.whole_number("top", top)
        with self.loaded.redacting():
            return self._predict(checked, most)

    def _predict(self, texts: Sequence[str], top: int) -> list[Prediction]:
        records = pa.table([self._column(field, texts) for field in self.records], schema=self.records)
        for node in self.before:
            self._check_key(node, records)
            records = process_batch(node, _fitted(records, node), _TextOnly()).records
        records = _fitted(records, self.node)
        answers = self.classify.ask(records)
        if answers["predicted"].null_count:
            message = f"the model of {self.run} has not learned any label yet; continue the run with labelled records"
            raise MillstreamError(message)
        best = list(zip(*(answers[name].to_pylist() for name in ("predicted", "probability")), strict=True))
        others = self._others(records, top) if top > 1 else [[]] * len(best)
        by_offset = {
            offset: (label, chance, ((label, chance), *(pair for pair in more if pair[0] != label))[:top])
            for offset, (label, chance), more in zip(records[OFFSET].to_pylist(), best, others, strict=True)
        }
        return [Prediction(text, *by_offset.get(index, (None, None, ()))) for index, text in enumerate(texts)]

    def _others(self, records: pa.Table, top: int) -> list[list[tuple[str, float]]]:
        """For each record the `top` likeliest labels, with their probabilities."""
        names, chances = self.classify.ask_all(records)
        return [
            [(names[index], float(row[index])) for index in (-row).argsort(kind="stable")[:top].tolist()]
            for row in chances
        ]

    def _check_key(self, node: Node, records: pa.Table) -> None:
        """Refuse records without the key that a step needs: it would remove them all."""
        for field in node.traits.key_fields:
            if records.num_rows and records[field].null_count == records.num_rows:
                message = (
                    f"the model of {self.run} cannot predict from a text alone: its input comes from the step "
                    f"{node.name!r}, which needs the field {field!r}"
                )
                raise MillstreamError(message)

    @staticmethod
    def _column(field: pa.Field, texts: Sequence[str]) -> pa.Array:
        if field.name == "text":
            return pa.array(texts, field.type)
        if field.name == OFFSET:
            return pa.array(range(len(texts)), field.type)
        if field.name == RANK:
            return pa.array([0] * len(texts), field.type)
        return pa.nulls(len(texts), field.type)


def _fitted(records: pa.Table, node: Node) -> pa.Table:
    """The records as a step gets them: with an empty path, if it reads a union whose records have one."""
    if PATH not in node.records.names or PATH in records.column_names:
        return records
    return records.append_column(PATH, pa.repeat(pa.scalar(b"", pa.binary()), records.num_rows))


def load_model(directory: RunDirectory, loaded: Loaded, step: str | None = None) -> CheckpointModel:
    """Load the model of the newest checkpoint, that of `step` if several steps classify.

    `MillstreamError` if the run has no model.
    """
    directory.check_epoch_log()
    graph = graph_of(loaded)
    model = _chosen(directory, graph, step)
    nodes = _way_to(graph, model)
    first = (*nodes, model)[0]
    if "text" not in first.records.names:
        fields = ", ".join(graph.fields)
        message = f"the records of {directory.path} have no field 'text' to predict from; their fields are {fields}"
        raise MillstreamError(message)

    def restore(checkpoint: Checkpoint, states: States) -> Checkpoint:
        for node in (*nodes, model):
            node.step.restore(states.get(node.name, {}))
        return checkpoint

    with loaded.redacting():
        found = read_newest(directory.path, restore)
    if found is None:
        message = f"{directory.path} has no checkpoint yet; the run writes one with its first epochs"
        raise MillstreamError(message)
    return CheckpointModel(directory.path, first.records, nodes, model, loaded)


def _chosen(directory: RunDirectory, graph: Graph, step: str | None) -> Node:
    """The step that classifies, that of this name if several do."""
    found = {node.name: node for node in graph.steps if hasattr(node.step, "ask")}
    if not found:
        names = ", ".join(node.name for node in graph.steps)
        message = f"the pipeline of {directory.path} has no step that classifies; its steps are {names}"
        raise MillstreamError(message)
    if step is None and len(found) > 1:
        message = f"several steps of {directory.path} classify: {', '.join(found)}; name one of them as `step`"
        raise MillstreamError(message)
    if step is not None and step not in found:
        meant = suggestion(step, found, f"one of {', '.join(found)}")
        raise MillstreamError(f"no step {step!r} of {directory.path} classifies{meant}")
    return found[step] if step is not None else next(iter(found.values()))


def _way_to(graph: Graph, model: Node) -> list[Node]:
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

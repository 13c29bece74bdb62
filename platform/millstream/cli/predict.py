"""`millstream predict`: predictions of a run's model, from the newest checkpoint."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa

from millstream.errors import MillstreamError
from millstream.plain_text import json_text, one_line
from millstream.records import OFFSET, RANK
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import graph_of, load_run
from millstream.state.checkpoints import Checkpoint, read_newest
from millstream.state.stored_states import States
from millstream.steps.graph import Node
from millstream.steps.runner import process_batch

__all__ = ["predict"]

_CHUNK_BYTES = 1 << 16


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("text", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: text, predicted, probability.")
def predict(run: str, text: str | None, as_json: bool) -> None:
    """Print the label that the model of RUN predicts for TEXT, or for each line of standard input that is not blank.

    The command uses the newest checkpoint and learns nothing. RUN may be running at the same time.
    """
    model = _load_model(RunDirectory.find(Path(run)))
    for texts in [[text]] if text is not None else _lines(sys.stdin.buffer):
        for line, answer in zip(texts, model.ask(texts), strict=True):
            click.echo(_as_json(line, answer) if as_json else _as_text(line, answer))
        sys.stdout.flush()


@dataclass(frozen=True)
class _Answer:
    """The prediction for one text; `predicted` is None if a step before the model removed the record."""

    predicted: str | None
    probability: float | None


class _TextOnly:
    """The position, for error messages, of records that were made from texts."""

    def of_record(self, rank: int, offset: int) -> str:
        return "a record that has only a text"

    def of_batch(self, records: pa.Table) -> str:
        return "on a record that has only a text"


@dataclass(frozen=True)
class _CheckpointModel:
    """The steps up to the one that classifies, with the state of the newest checkpoint."""

    run: Path
    records: pa.Schema
    before: Sequence[Node]
    classify: Any

    def ask(self, texts: Sequence[str]) -> list[_Answer]:
        """Return an answer for each text; each becomes a record without any other field."""
        records = pa.table([self._column(field, texts) for field in self.records], schema=self.records)
        for node in self.before:
            self._check_key(node, records)
            records = process_batch(node, records, _TextOnly()).records
        answers = self.classify.ask(records)
        if answers["predicted"].null_count:
            message = f"the model of {self.run} has not learned any label yet; continue the run with labelled records"
            raise MillstreamError(message)
        found = zip(*(answers[name].to_pylist() for name in ("predicted", "probability")), strict=True)
        by_offset = dict(zip(records[OFFSET].to_pylist(), found, strict=True))
        return [_Answer(*by_offset.get(index, (None, None))) for index in range(len(texts))]

    def _check_key(self, node: Node, records: pa.Table) -> None:
        """Refuse records without the key that a step needs: it would remove them all."""
        key = node.traits.key
        if key is not None and records.num_rows and records[key].null_count == records.num_rows:
            message = (
                f"the model of {self.run} cannot predict from a text alone: its input comes from the step "
                f"{node.name!r}, which needs the field {key!r}"
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


def _load_model(directory: RunDirectory) -> _CheckpointModel:
    directory.check_epoch_log()
    loaded = load_run(directory)
    graph = graph_of(loaded)
    index = next((index for index, node in enumerate(graph.steps) if hasattr(node.step, "ask")), None)
    if index is None:
        names = ", ".join(node.name for node in graph.steps)
        message = f"the pipeline of {directory.path} has no step that classifies; its steps are {names}"
        raise MillstreamError(message)
    if "text" not in graph.records.names:
        fields = ", ".join(graph.fields)
        message = f"the records of {directory.path} have no field 'text' to predict from; their fields are {fields}"
        raise MillstreamError(message)
    nodes = graph.steps[: index + 1]

    def restore(checkpoint: Checkpoint, states: States) -> Checkpoint:
        for node in nodes:
            node.step.restore(states.get(node.name, {}))
        return checkpoint

    if read_newest(directory.path, restore) is None:
        message = f"{directory.path} has no checkpoint yet; the run writes one with its first epochs"
        raise MillstreamError(message)
    return _CheckpointModel(directory.path, graph.records, nodes[:-1], nodes[-1].step)


def _lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield lists of the lines that are available in a stream, without blank lines."""
    rest = b""
    while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        if texts := _texts(whole):
            yield texts
    if texts := _texts([rest]):
        yield texts


def _texts(lines: Sequence[bytes]) -> list[str]:
    return [text for line in lines if (text := line.decode("utf-8", "replace").strip())]


def _as_json(text: str, answer: _Answer) -> str:
    row = {"text": text, "predicted": answer.predicted, "probability": answer.probability}
    return json_text(json.dumps(row, ensure_ascii=False))


def _as_text(text: str, answer: _Answer) -> str:
    if answer.predicted is None or answer.probability is None:
        return one_line(f"-  -  {text}")
    return one_line(f"{answer.predicted}  {answer.probability:.3f}  {text}")

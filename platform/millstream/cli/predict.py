"""`millstream predict`: ask the model of a run, as it was saved last."""

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
from millstream.records import OFFSET, RANK
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import graph_of, load_run
from millstream.state.checkpoints import Checkpoint, States, read_newest
from millstream.steps.graph import Node
from millstream.steps.runner import run_step

__all__ = ["predict"]

_CHUNK_BYTES = 1 << 16


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("text", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: text, predicted, probability.")
def predict(run: str, text: str | None, as_json: bool) -> None:
    """Print what the model of RUN takes TEXT to be about, or each line of standard input that is not blank.

    It answers from the checkpoint written last and learns nothing; the run may be running meanwhile.
    """
    model = _loaded_model(RunDirectory.find(Path(run)))
    for texts in [[text]] if text is not None else _lines(sys.stdin.buffer):
        for asked, answer in zip(texts, model.ask(texts), strict=True):
            click.echo(_as_json(asked, answer) if as_json else _as_text(asked, answer))
        sys.stdout.flush()


@dataclass(frozen=True)
class _Answer:
    """None as `predicted`: a step before the model has left the record out."""

    predicted: str | None
    probability: float | None


class _TextAlone:
    """The position of records that were made from a text: they have none."""

    def of_record(self, rank: int, offset: int) -> str:
        return "a record with text alone"

    def of_batch(self, records: pa.Table) -> str:
        return "on a record with text alone"


@dataclass(frozen=True)
class _Asking:
    """The steps up to the one that classifies, with the state of the checkpoint."""

    run: Path
    records: pa.Schema
    before: Sequence[Node]
    classify: Any

    def ask(self, texts: Sequence[str]) -> list[_Answer]:
        """An answer for each text; texts are records without any other field."""
        records = pa.table([self._column(field, texts) for field in self.records], schema=self.records)
        for node in self.before:
            records = run_step(node, records, _TextAlone()).records
        answers = self.classify.ask(records)
        if answers["predicted"].null_count:
            message = f"the model of {self.run} has not learned any label yet; run on, or give it labelled records"
            raise MillstreamError(message)
        found = zip(*(answers[name].to_pylist() for name in ("predicted", "probability")), strict=True)
        by_offset = dict(zip(records[OFFSET].to_pylist(), found, strict=True))
        return [_Answer(*by_offset.get(index, (None, None))) for index in range(len(texts))]

    @staticmethod
    def _column(field: pa.Field, texts: Sequence[str]) -> pa.Array:
        if field.name == "text":
            return pa.array(texts, field.type)
        if field.name == OFFSET:
            return pa.array(range(len(texts)), field.type)
        if field.name == RANK:
            return pa.array([0] * len(texts), field.type)
        return pa.nulls(len(texts), field.type)


def _loaded_model(directory: RunDirectory) -> _Asking:
    loaded = load_run(directory)
    graph = graph_of(loaded)
    index = next((index for index, node in enumerate(graph.steps) if hasattr(node.step, "ask")), None)
    if index is None:
        names = ", ".join(node.name for node in graph.steps)
        message = f"the pipeline of {directory.path} has no step that classifies; its steps are {names}"
        raise MillstreamError(message)
    if "text" not in graph.records.names:
        message = f"the records of {directory.path} have no field 'text' to ask by: {', '.join(graph.fields)}"
        raise MillstreamError(message)
    nodes = graph.steps[: index + 1]

    def restore(checkpoint: Checkpoint, states: States) -> Checkpoint:
        for node in nodes:
            node.step.restore(states.get(node.name, {}))
        return checkpoint

    if read_newest(directory.checkpoints, restore) is None:
        message = f"{directory.path} has not been saved yet; its first checkpoint comes with its first epochs"
        raise MillstreamError(message)
    return _Asking(directory.path, graph.records, nodes[:-1], nodes[-1].step)


def _lines(stream: BinaryIO) -> Iterator[list[str]]:
    """The lines of a stream, as many at once as have come; without blank ones."""
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
    return json.dumps(row, ensure_ascii=False)


def _as_text(text: str, answer: _Answer) -> str:
    if answer.predicted is None or answer.probability is None:
        return f"-  -  {text}"
    return f"{answer.predicted}  {answer.probability:.3f}  {text}"

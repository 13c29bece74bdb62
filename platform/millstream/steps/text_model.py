"""A model with the steps before it, which predicts texts and learns nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millstream import arguments
from millstream.errors import MillstreamError
from millstream.records import OFFSET, PATH, RANK
from millstream.steps.nodes import Node
from millstream.steps.runner import process_batch

__all__ = ["Prediction", "TextModel", "fitted"]


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

    def of_record(self, rank: int, offset: int, path: bytes) -> str:
        return "a record that has only a text"

    def of_batch(self, records: pa.Table) -> str:
        return "on a record that has only a text"


@dataclass(frozen=True)
class TextModel:
    """The steps `before` the model in their order, and the step that classifies, all with their states.

    `name` is that of the model in messages, such as "the model of runs/news".
    """

    name: str
    before: Sequence[Node]
    node: Node

    @property
    def classify(self) -> Any:
        return self.node.step

    @property
    def records(self) -> pa.Schema:
        """The columns of the records that the first step gets."""
        return (*self.before, self.node)[0].records

    def predict(self, texts: Iterable[str], *, top: int = 1) -> list[Prediction]:
        """Return a prediction for each text, with its `top` labels; each text becomes a record with no other field."""
        checked, most = arguments.texts("texts", texts), arguments.whole_number("top", top)
        records = pa.table([self._column(field, checked) for field in self.records], schema=self.records)
        for node in self.before:
            self._check_key(node, records)
            records = process_batch(node, fitted(records, node), _TextOnly()).records
        records = fitted(records, self.node)
        answers = self.classify.ask(records)
        if answers["predicted"].null_count:
            message = f"{self.name} has not learned any label yet; continue the run with labelled records"
            raise MillstreamError(message)
        best = list(zip(*(answers[name].to_pylist() for name in ("predicted", "probability")), strict=True))
        others = self._others(records, most) if most > 1 else [[]] * len(best)
        by_offset = {
            offset: (label, chance, ((label, chance), *(pair for pair in more if pair[0] != label))[:most])
            for offset, (label, chance), more in zip(records[OFFSET].to_pylist(), best, others, strict=True)
        }
        return [Prediction(text, *by_offset.get(index, (None, None, ()))) for index, text in enumerate(checked)]

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
                    f"{self.name} cannot predict from a text alone: its input comes from the step "
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


def fitted(records: pa.Table, node: Node) -> pa.Table:
    """The records as a step gets them: with an empty path, if it reads a union whose records have one."""
    if PATH not in node.records.names or PATH in records.column_names:
        return records
    return records.append_column(PATH, pa.repeat(pa.scalar(b"", pa.binary()), records.num_rows))

"""The most frequent values of each window, counted in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from millstream.arrays import Array
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import Step
from millstream.steps.frequency_sketch import Counted, SpaceSaving
from millstream.steps.windowed.measures import Row
from millstream.steps.windowed.options import WindowedOptions
from millstream.steps.windowed.step import WindowedStep
from millstream.steps.windowed.texts import plain_texts
from millstream.substreams.windows import SessionWindow

__all__ = ["TopK"]


class TopK(WindowedOptions):
    """Finds the `k` most frequent values of a text field in each window, with `counters` counters for each pane.

    The output `top` has for each value its `rank`, its `count`, and the greatest `error` of the count: the true count
    is at most `count`, and at least `count - error`. `records` is the number of records in the window that have a
    value; the error is at most `records / counters`, and 0 if the window has at most `counters` values. A value with a
    true count above `records / counters` always has a counter.

    >>> position = {"_rank": [0] * 4, "_offset": range(4), "_time": range(4)}
    >>> records = pa.table({**position, "word": ["sun", "rain", "sun", "sun"]})
    >>> step = TopK(of="word", k=1, window={"type": "count", "size": 4}).build(records.schema)
    >>> step.process(records).outputs["top"].to_pylist()
    [{'_window': 0, 'value': 'sun', 'rank': 1, 'count': 3, 'error': 0, 'records': 4}]
    """

    type: Literal["top_k"] = "top_k"
    of: str = Field(description="The text field whose values are counted.")
    k: int = Field(
        default=10, ge=1, description="The number of values in the output.", json_schema_extra={"keeps_state": True}
    )
    counters: int = Field(default=1000, ge=1, description="The most values that a pane of a window counts at a time.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.counters < self.k:
            message = f"`counters` {self.counters} is less than `k` {self.k}; ten times `k` or more gives good counts"
            raise ValueError(message)
        if isinstance(self.window, SessionWindow):
            message = "sketches of sessions that join depend on the batches; take another kind of window"
            raise ValueError(message)
        return self

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        check_text_column(f"step {name!r}, `of`", self.of, records, "values")
        return WindowedStep(name, self, _Top(self.of, self.k, self.counters), records)


class _Top:
    name = "top"
    output = "top"
    identity: tuple[str, ...] = ("value",)
    ordered = True
    columns: Sequence[pa.Field] = (
        pa.field("value", pa.string()),
        pa.field("rank", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("error", pa.int64()),
        pa.field("records", pa.int64()),
    )

    def __init__(self, of: str, k: int, counters: int) -> None:
        self._of, self._k, self._counters = of, k, counters

    def read(self, records: pa.Table) -> pa.Array:
        return plain_texts(records[self._of])

    def topics(self, read: pa.Array, rows: Array) -> pa.Array:
        return read.take(pa.array(rows))

    def contents(self) -> SpaceSaving:
        return SpaceSaving(self._counters)

    def add(self, read: pa.Array, rows: Array, cell_of: Array, cells: Sequence[SpaceSaving]) -> None:
        order = np.argsort(rows, kind="stable")
        values = read.take(pa.array(rows[order])).to_pylist()
        for value, cell in zip(values, cell_of[order].tolist(), strict=True):
            if value is not None:
                cells[cell].add(value)

    def merge(self, contents: Sequence[SpaceSaving]) -> SpaceSaving:
        return SpaceSaving.union(self._counters, contents)

    def rows(self, past: Any, number: int, contents: SpaceSaving) -> Sequence[Row]:
        return self.early_rows(past, number, contents)

    def early_rows(self, past: Any, number: int, contents: SpaceSaving) -> Sequence[Row]:
        top = contents.top(self._k)
        return [(each.value, rank, each.count, each.error, contents.total) for rank, each in enumerate(top, start=1)]

    def past(self) -> None:
        return None

    def follower(self, past: Any) -> int | None:
        return None

    def end(self, past: Any) -> None:
        pass

    def is_needed(self, past: Any) -> bool:
        return False

    def save(self, contents: SpaceSaving) -> Any:
        return [contents.total, [[each.value, each.count, each.error] for each in contents.counted()]]

    def restore(self, saved: Any) -> SpaceSaving:
        return SpaceSaving(self._counters, saved[0], [Counted(*each) for each in saved[1]])

    def save_past(self, past: Any) -> Mapping[str, Any]:
        return {}

    def restore_past(self, saved: Mapping[str, Any]) -> None:
        return None

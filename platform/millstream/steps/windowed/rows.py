"""The rows of windows: their columns, their order, and their identity as records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array
from millstream.records import no_records
from millstream.steps.contracts import WindowRows
from millstream.steps.windowed.measures import Row

__all__ = ["PARTIAL", "MadeRows", "RowColumns", "WindowOfRows"]

PARTIAL = pa.field("_partial", pa.bool_())
"""The column that marks rows of windows which lack records, because the run began in the middle of the stream."""

_NO_WINDOWS = WindowRows(pa.nulls(0, pa.int64()), pa.nulls(0, pa.int64()))
"""The windows of no rows, made without pandas, which `pa.array` imports."""


class WindowOfRows(NamedTuple):
    """One window of one key with its rows; the first three values order them."""

    place: int
    key: str
    number: int
    time: int | None
    rows: Sequence[Row]
    emission: int
    final: bool


class MadeRows(NamedTuple):
    """The rows of windows, and the number and the time of the window of each of them."""

    table: pa.Table
    windows: WindowRows


class RowColumns:
    """The columns of a windowed step's rows: the window, the fields of the key, the measure, and the emission.

    With `last_partial`, a column marks the rows of windows up to this number as partial.
    """

    def __init__(
        self,
        label: pa.DataType,
        key: Sequence[str],
        measured: Sequence[pa.Field],
        *,
        emissions: bool,
        last_partial: int | None = None,
    ) -> None:
        self._key = tuple(key)
        self._emissions = emissions
        self._last_partial = last_partial
        emission = [pa.field("_emission", pa.int64()), pa.field("_final", pa.bool_())] if emissions else []
        keys = [pa.field(name, pa.string()) for name in self._key]
        partial = [] if last_partial is None else [PARTIAL]
        self.schema = pa.schema([pa.field("_window", label), *keys, *measured, *emission, *partial])
        self._measured = pa.struct([*measured, *emission])
        self.none = MadeRows(no_records(self.schema), _NO_WINDOWS)
        """No rows."""

    def of(self, made: Sequence[WindowOfRows], labels: Any, *, among_records: bool = False) -> MadeRows:
        """The rows of these windows, in their order. `labels` returns the labels of windows with these numbers.

        `among_records`: the windows closed with records, whose rows in the batch are the places of the windows.
        """
        made = sorted((each for each in made if each.rows), key=lambda each: each[:3])
        if not made:
            return self.none
        numbers = [each.number for each in made for _ in each.rows]
        times = [each.time for each in made for _ in each.rows]
        places = pa.array([each.place for each in made for _ in each.rows], pa.int64()) if among_records else None
        windows = WindowRows(pa.array(numbers, pa.int64()), pa.array(times, pa.int64()), places)
        # as one array of structs, which takes half the time of one array for each column
        measured = pa.array([row for each in made for row in self._rows_of(each)], self._measured).flatten()
        keys, counts = [each.key for each in made], [len(each.rows) for each in made]
        return self.table(keys, counts, labels(numbers), measured, windows)

    def table(
        self,
        keys: Sequence[str],
        counts: Sequence[int] | Array,
        labels: pa.Array,
        measured: Sequence[pa.Array],
        windows: WindowRows,
    ) -> MadeRows:
        """The rows of windows of these keys, so many rows of each; the other columns have a value for each row."""
        columns = [labels, *(self._keys(keys, counts) if self._key else ()), *measured]
        if self._last_partial is not None:
            columns.append(pc.less_equal(windows.numbers, self._last_partial))
        return MadeRows(pa.Table.from_arrays(columns, schema=self.schema), windows)

    def _rows_of(self, window: WindowOfRows) -> Sequence[Row]:
        """The measured values of a window's rows, and the emission."""
        if not self._emissions:
            return window.rows
        return [(*row, window.emission, window.final) for row in window.rows]

    def _keys(self, keys: Sequence[str], counts: Sequence[int] | Array) -> list[pa.Array]:
        """The columns of the key's fields."""
        places = pa.array(np.repeat(np.arange(len(keys)), counts))
        values = [keys] if len(self._key) == 1 else list(zip(*map(json.loads, keys), strict=True))
        return [pa.array(column, pa.string()).take(places) for column in values]

"""The rows of windows: their columns, their order, and their identity as records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.records import no_records
from millstream.steps.contracts import WindowRows
from millstream.steps.windowed.measures import Row

__all__ = ["MadeRows", "RowColumns", "WindowOfRows"]

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
    """The columns of a windowed step's rows: the window, the fields of the key, the measure, and the emission."""

    def __init__(
        self, label: pa.DataType, key: Sequence[str], measured: Sequence[pa.Field], *, emissions: bool
    ) -> None:
        self._key = tuple(key)
        self._emissions = emissions
        emission = [pa.field("_emission", pa.int64()), pa.field("_final", pa.bool_())] if emissions else []
        keys = [pa.field(name, pa.string()) for name in self._key]
        self.schema = pa.schema([pa.field("_window", label), *keys, *measured, *emission])
        self.none = MadeRows(no_records(self.schema), _NO_WINDOWS)
        """No rows."""

    def of(self, made: Sequence[WindowOfRows], labels: Any, *, among_records: bool = False) -> MadeRows:
        """The rows of these windows, in their order. `labels` returns the labels of windows with these numbers.

        `among_records`: the windows closed with records, whose rows in the batch are the places of the windows.
        """
        made = sorted((each for each in made if each.rows), key=lambda each: each[:3])
        if not made:
            return self.none
        counts = np.array([len(each.rows) for each in made], np.int64)
        numbers = np.repeat(np.array([each.number for each in made], np.int64), counts)
        columns = [pa.array(list(column)) for column in zip(*(row for each in made for row in each.rows), strict=True)]
        if self._emissions:
            columns.append(pa.array(np.repeat(np.array([each.emission for each in made], np.int64), counts)))
            columns.append(pa.array(np.repeat(np.array([each.final for each in made], np.bool_), counts)))
        times = pa.array([each.time for each in made], pa.int64()).take(
            pa.array(np.repeat(np.arange(len(made)), counts))
        )
        keys = [each.key for each in made]
        places = np.repeat(np.array([each.place for each in made], np.int64), counts) if among_records else None
        windows = WindowRows(pa.array(numbers), times, None if places is None else pa.array(places))
        return self.table(keys, counts, labels(numbers.tolist()), columns, windows)

    def table(
        self, keys: Sequence[str], counts: Array, labels: pa.Array, measured: Sequence[pa.Array], windows: WindowRows
    ) -> MadeRows:
        """The rows of windows of these keys, so many rows of each; the other columns have a value for each row."""
        places = pa.array(np.repeat(np.arange(len(keys)), counts))
        values = [keys] if len(self._key) == 1 else list(zip(*map(json.loads, keys), strict=True)) if self._key else []
        columns = [labels, *(pa.array(column, pa.string()).take(places) for column in values), *measured]
        arrays = [column.cast(field.type) for column, field in zip(columns, self.schema, strict=True)]
        return MadeRows(pa.Table.from_arrays(arrays, schema=self.schema), windows)

"""The order of records and of rows of windows at the boundary of an epoch.

It is the same for the records that a step reads, for the rows that it makes of them, and for the rows of several owners
of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.steps.contracts import Output, Result, Scope, Step, Traits
from millstream.steps.keys import keys_of
from millstream.steps.round_paths import rounds_of

__all__ = ["in_boundary_order", "in_order_at_end", "in_window_order", "key_of_rows"]

_ROUND = "round"
_BEFORE_ALL = np.iinfo(np.int64).min


def in_boundary_order(records: pa.Table) -> pa.Table:
    """Sort records by their round and their time, then by rank, offset and path. A missing time is before all others.

    The children of records that are in this order are in this order too.

    >>> rows = pa.table({"_rank": [0, -2, 0], "_offset": [7, 3, 6], "_time": [5, 5, 5], "_path": [b"0", b"1", b"1"]})
    >>> in_boundary_order(rows).select(["_rank", "_offset"]).to_pylist()
    [{'_rank': -2, '_offset': 3}, {'_rank': 0, '_offset': 6}, {'_rank': 0, '_offset': 7}]
    """
    if records.num_rows < 2:
        return records
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    if PATH in records.column_names:
        columns[_ROUND] = pa.array(rounds_of(records[PATH]))
    if TIME in records.column_names:  # rows of an output may have none
        columns[TIME] = pc.fill_null(records[TIME], _BEFORE_ALL)
    columns |= {name: records[name] for name in (RANK, OFFSET, PATH) if name in records.column_names}
    return records.take(_sorted_by(columns))


def in_window_order(rows: pa.Table, fields: Sequence[str], times: pa.ChunkedArray | None = None) -> pa.Table:
    """Sort the rows of windows by the times of their windows, if these are known, and then by key and window.

    >>> rows = pa.table({"_window": [2, 1, 1], "word": ["a", "b", "a"]})
    >>> in_window_order(rows, ["word"])["_window"].to_pylist()
    [1, 2, 1]
    """
    columns = {} if times is None else {TIME: pc.fill_null(times, _BEFORE_ALL)}
    columns |= {"key": keys_of(rows, fields)} if fields else {}
    return rows.take(_sorted_by({**columns, "window": rows["_window"]}))


def key_of_rows(traits: Traits, output: Output) -> Sequence[str]:
    """The columns of a step's key that the rows of windows of an output have; those of the rows without any."""
    names = [name for name in traits.key_fields if name in output.schema.names]
    return names or output.key


def in_order_at_end(step: Step, result: Result) -> Result:
    """The result that a step returned at an end, with its rows in the order that engines give them."""
    if step.traits.scope is Scope.GLOBAL:
        return result
    outputs = dict(result.outputs)
    for output in step.outputs:
        if output.name in outputs and output.of != "window":
            outputs[output.name] = in_boundary_order(outputs[output.name])
        elif output.name in outputs and output.name not in result.windows:
            outputs[output.name] = in_window_order(outputs[output.name], key_of_rows(step.traits, output))
    return replace(result, records=in_boundary_order(result.records), outputs=outputs)


def _sorted_by(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Array:
    return pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])

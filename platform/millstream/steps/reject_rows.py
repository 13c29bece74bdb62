"""Rows of the output `rejects` for records that a step cannot use."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import position_fields, rejects_schema

__all__ = ["positions", "reject_rows"]


def reject_rows(step: str, records: pa.Table, rows: Array | Sequence[int], reasons: str | Sequence[str]) -> pa.Table:
    """Reject these rows of a table of records, each for its own reason, or all for the same one.

    >>> records = pa.table({"_rank": [0, 0], "_offset": [7, 8], "_time": [1, 2]})
    >>> reject_rows("count", records, [1], "no author").select(["_offset", "step", "reason"]).to_pylist()
    [{'_offset': 8, 'step': 'count', 'reason': 'no author'}]
    """
    rejects = positions(records, rows)
    each = [reasons] * rejects.num_rows if isinstance(reasons, str) else reasons
    columns = [pa.array([step] * rejects.num_rows, pa.string()), pa.array(each, pa.string())]
    return pa.Table.from_arrays([*rejects.columns, *columns], schema=rejects_schema(rejects.schema))


def positions(records: pa.Table, rows: Array | Sequence[int]) -> pa.Table:
    """The identity and the time of these rows, as outputs have them."""
    fields = pa.schema(position_fields(records.schema))
    return records.select(fields.names).take(pa.array(rows, pa.int64())).cast(fields)

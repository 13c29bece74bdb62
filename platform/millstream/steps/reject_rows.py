"""Rows of the output `rejects` for records that a step cannot use."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import position_fields, rejects_schema

__all__ = ["positions", "reject_rows", "with_step"]

_STEP = "step"
"""The column of an output of all steps that names the step."""


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


def with_step(rows: pa.Table, step: str) -> pa.Table:
    """The rows of an output of all steps with the name of the step that made them, whatever the step itself wrote.

    >>> with_step(pa.table({"step": ["Upper"], "reason": ["no text"]}), "upper").to_pylist()
    [{'step': 'upper', 'reason': 'no text'}]
    """
    names = pa.repeat(pa.scalar(step, pa.string()), rows.num_rows)
    if _STEP not in rows.column_names:
        return rows.append_column(_STEP, names)
    return rows.set_column(rows.column_names.index(_STEP), pa.field(_STEP, pa.string()), names)


def positions(records: pa.Table, rows: Array | Sequence[int]) -> pa.Table:
    """The identity and the time of these rows, as outputs have them."""
    fields = pa.schema(position_fields(records.schema))
    return records.select(fields.names).take(pa.array(rows, pa.int64())).cast(fields)

"""Rows of the output `late` for records that missed their windows."""

from __future__ import annotations

import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import position_fields
from millstream.steps.reject_rows import positions

__all__ = ["late_rows", "late_schema"]


def late_schema(records: pa.Schema, label: pa.DataType) -> pa.Schema:
    """The columns of the output `late`, for windows with labels of this type."""
    return pa.schema([*position_fields(records), pa.field("topic", pa.string()), pa.field("_window", label)])


def late_rows(records: pa.Table, rows: Array, topics: pa.Array, labels: pa.Array) -> pa.Table:
    """The rows of late records: their positions, their topics, and the windows that they missed."""
    schema = late_schema(records.schema, labels.type)
    return pa.Table.from_arrays([*positions(records, rows).columns, topics, labels], schema=schema)

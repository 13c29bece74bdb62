"""Rows of single records that are in no window: late ones, and rejects."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.records import OFFSET, RANK, TIME
from millstream.steps.contracts import rejects_schema

__all__ = ["late_rows", "late_schema", "rejected_rows"]

_POSITION = (RANK, OFFSET, TIME)


def late_schema(label: pa.DataType) -> pa.Schema:
    """The columns of the output `late`, for windows with labels of this type."""
    position = [pa.field(name, pa.int64()) for name in _POSITION]
    return pa.schema([*position, pa.field("topic", pa.string()), pa.field("_window", label)])


def late_rows(records: pa.Table, rows: Array, topics: pa.Array, labels: pa.Array) -> pa.Table:
    """The rows of late records: their positions, their topics, and the windows that they missed."""
    late = records.select(_POSITION).take(pa.array(rows))
    late = late.append_column("topic", topics).append_column("_window", labels)
    return late.cast(late_schema(labels.type))


def rejected_rows(step: str, records: pa.Table, reasons: Mapping[str, Array]) -> pa.Table:
    """Reject the rows of each reason; the rejects are in the order of the records."""
    rows = np.concatenate(list(reasons.values()))
    texts = [reason for reason, found in reasons.items() for _ in found]
    order = np.argsort(rows, kind="stable")
    rejects = records.select(_POSITION).take(pa.array(rows[order]))
    rejects = rejects.append_column("step", pa.array([step] * len(rows), pa.string()))
    rejects = rejects.append_column("reason", pa.array(texts, pa.string()).take(pa.array(order)))
    return rejects.cast(rejects_schema())

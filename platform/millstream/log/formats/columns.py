"""Converts the columns that a source has read into the records that a log yields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.formats.times import from_seconds, from_text, within_calendar
from millstream.records import log_schema

__all__ = ["records_of"]


def records_of(
    columns: Mapping[str, pa.Array],
    reasons: Sequence[str | None] | None,
    count: int,
    fields: Mapping[str, str],
    offset: int,
) -> pa.RecordBatch:
    """The records with the offsets `offset`, `offset + 1`, ...

    A record is rejected, with a reason in `_reject`, if `reasons` has one, if its text is missing, or if its time
    cannot be read. Of a reject only the time is kept.

    `columns` are text, by the names of Millstream's fields; `time` is text (ISO 8601), float64 (seconds since 1970),
    int64 (microseconds), or a struct of `text` and `seconds`. `fields` gives the source's name of each field.

    >>> columns = {"text": pa.array(["a", None]), "time": pa.array([1.5, 2.0])}
    >>> records_of(columns, None, 2, {"text": "body", "time": "at"}, 7).to_pylist()[1]
    {'_offset': 8, '_time': 2000000, '_reject': 'no text', 'text': None}
    """
    reject = pa.array(reasons, pa.string()) if reasons is not None else pa.nulls(count, pa.string())
    if "text" in fields and columns["text"].null_count:
        missing = pc.and_(pc.is_null(columns["text"]), pc.is_null(reject))
        reject = pc.if_else(missing, "no text", reject)
    time = pa.nulls(count, pa.int64())
    if "time" in fields:
        time, unreadable = _times(columns["time"], fields["time"])
        if unreadable is not None:
            reject = pc.coalesce(reject, unreadable)
    schema = log_schema(list(fields))
    arrays = [
        pa.array(np.arange(offset, offset + count, dtype=np.int64)),
        time,
        reject,
        *(columns[name] for name in schema.names[3:]),
    ]
    if reject.null_count < count:
        good = pc.is_null(reject)
        arrays[3:] = [pc.if_else(good, column, None) for column in arrays[3:]]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _times(column: pa.Array, key: str) -> tuple[pa.Array, pa.Array | None]:
    """(microseconds, reasons for rejection) of a column of times: text, or seconds, or a struct of both.

    `key` is the source's name of the field.
    """
    if pa.types.is_struct(column.type):
        (text, not_text), (seconds, no_seconds) = (_times(column.field(n), key) for n in ("text", "seconds"))
        wrong = no_seconds if not_text is None else not_text
        if not_text is not None and no_seconds is not None:
            wrong = pc.coalesce(not_text, no_seconds)
        return pc.coalesce(text, seconds), wrong
    present = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type):
        micros, good = from_text(column)
    elif pa.types.is_integer(column.type):
        micros = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        good = within_calendar(micros)
    else:
        micros, good = from_seconds(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False))
    bad = present & ~good
    wrong = None
    if bad.any():
        shown = pc.utf8_slice_codeunits(column.cast(pa.string()), 0, 40)
        problem = "is not an ISO 8601 time: " if pa.types.is_string(column.type) else "is beyond the years 1 to 9999: "
        wrong = pc.if_else(pa.array(bad), pc.binary_join_element_wise(f"{key} {problem}", shown, ""), None)
    return pa.array(micros, mask=~(present & good)), wrong

"""Messages into the records that a log yields: JSON, text, or bytes as they are."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.lines import parse_lines
from millstream.log.times import within_calendar
from millstream.records import log_schema
from millstream_connectors.kafka.batches import Records

__all__ = ["Format", "Reading"]

Format = Literal["json", "text", "raw"]

_TOMBSTONE = "tombstone: the message has no value"


@dataclass(frozen=True)
class Reading:
    """Which parts of a message become which columns.

    `fields` are those of JSON values, `ours: theirs`; of text it is `text`, of raw bytes `value`. `key` is the column
    that takes the key, `headers` are `ours: theirs`. With `message_time` the message's timestamp is the record's time.
    """

    format: Format
    fields: Mapping[str, str]
    key: str | None
    headers: Mapping[str, str]
    message_time: bool

    @property
    def columns(self) -> list[str]:
        """The columns beside `_offset`, `_time` and `_reject`."""
        own = {"json": [name for name in self.fields if name != "time"], "text": ["text"], "raw": ["value"]}
        return [*own[self.format], *([] if self.key is None else [self.key]), *self.headers]

    def records(self, messages: Records) -> pa.RecordBatch:
        """The messages as records; one that cannot be read is a reject."""
        values = messages.values()
        columns, time, reasons = self._values(values)
        if self.message_time:
            time = _times(messages.timestamps)
        if None in values:
            nothing = pa.array([value is None for value in values])
            reasons = pc.if_else(nothing, _TOMBSTONE, reasons)
        texts = {} if self.key is None else {self.key: ("key", messages.keys())}
        texts |= {
            ours: (f"header {theirs}", messages.headers(theirs.encode())) for ours, theirs in self.headers.items()
        }
        for name, (what, found) in texts.items():
            columns[name], wrong = _texts(found, f"{what} is ")
            reasons = pc.coalesce(reasons, wrong)
        arrays = [time, reasons, *(columns[name] for name in self.columns)]
        if reasons.null_count < len(reasons):
            good = pc.is_null(reasons)
            arrays = [reasons if array is reasons else pc.if_else(good, array, None) for array in arrays]
        return pa.RecordBatch.from_arrays([pa.array(messages.offsets), *arrays], schema=log_schema(self.columns))

    def _values(self, values: Sequence[bytes | None]) -> tuple[dict[str, pa.Array], pa.Array, pa.Array]:
        """What the values hold: the columns, the times, and what is wrong."""
        if self.format == "json":
            batch = parse_lines([value or b"" for value in values], self.fields, 0)
            _, time, reasons, *_ = batch.columns
            return dict(zip(batch.schema.names[3:], batch.columns[3:], strict=True)), time, reasons
        none = pa.nulls(len(values), pa.int64())
        if self.format == "text":
            texts, wrong = _texts(values, "")
            return {"text": texts}, none, wrong
        coded = [None if value is None else base64.b64encode(value).decode() for value in values]
        return {"value": pa.array(coded, pa.string())}, none, pa.nulls(len(values), pa.string())


def _texts(values: Sequence[bytes | None], what: str) -> tuple[pa.Array, pa.Array]:
    """Values as text, and what is wrong with those that are none."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string()), pa.nulls(len(values), pa.string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        wrong: list[str | None] = []
        for value in values:
            try:
                texts.append(None if value is None else value.decode())
                wrong.append(None)
            except UnicodeDecodeError as error:
                texts.append(None)
                wrong.append(f"{what}not UTF-8 at byte {error.start}")
        return pa.array(texts, pa.string()), pa.array(wrong, pa.string())


def _times(millis: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> pa.Array:
    """Timestamps as microseconds; a message without one has -1."""
    micros = np.clip(millis, -1, 1 << 52) * 1000
    return pa.array(micros, mask=(millis < 0) | ~within_calendar(micros))

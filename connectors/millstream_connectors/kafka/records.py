"""Messages into the records that a log yields: JSON, text, or bytes as they are."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import FEW_ROWS
from millstream.log.formats.lines import parse_block, parse_lines
from millstream.log.formats.rows import content_of
from millstream.log.formats.times import within_calendar
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
        values = messages.value_column()
        columns, time, reasons = self._values(values)
        if self.message_time:
            time = _times(messages.timestamps)
        if values.null_count:
            reasons = pc.if_else(pc.is_null(values), _TOMBSTONE, reasons)
        texts = {} if self.key is None else {self.key: ("key", messages.key_column())}
        texts |= {
            ours: (f"header {theirs}", messages.header_column(theirs.encode())) for ours, theirs in self.headers.items()
        }
        for name, (what, found) in texts.items():
            columns[name], wrong = _texts(found, f"{what} is ")
            reasons = pc.coalesce(reasons, wrong)
        arrays = [time, reasons, *(columns[name] for name in self.columns)]
        if reasons.null_count < len(reasons):
            good = pc.is_null(reasons)
            arrays = [reasons if array is reasons else pc.if_else(good, array, None) for array in arrays]
        return pa.RecordBatch.from_arrays([pa.array(messages.offsets), *arrays], schema=log_schema(self.columns))

    def _values(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array, pa.Array]:
        """What the values hold: the columns, the times, and what is wrong."""
        if self.format == "json":
            batch = _parsed(pc.fill_null(values, b""), self.fields)
            _, time, reasons, *_ = batch.columns
            return dict(zip(batch.schema.names[3:], batch.columns[3:], strict=True)), time, reasons
        none = pa.nulls(len(values), pa.int64())
        if self.format == "text":
            texts, wrong = _texts(values, "")
            return {"text": texts}, none, wrong
        coded = [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()]
        return {"value": pa.array(coded, pa.string())}, none, pa.nulls(len(values), pa.string())


def _parsed(values: pa.Array, fields: Mapping[str, str]) -> pa.RecordBatch:
    """Values that are JSON objects: parsed together, unless there are few, or some go over several lines."""
    if len(values) > FEW_ROWS:
        lines = bytes(content_of(pc.binary_join_element_wise(values, b"\n", b"")))
        if lines.count(b"\n") == len(values):
            return parse_block(lines, fields, 0)
    return parse_lines(values.to_pylist(), fields, 0)


def _texts(values: pa.Array, what: str) -> tuple[pa.Array, pa.Array]:
    """Values as text, and what is wrong with those that are none."""
    try:
        return values.cast(pa.string()), pa.nulls(len(values), pa.string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        wrong: list[str | None] = []
        for value in values.to_pylist():
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

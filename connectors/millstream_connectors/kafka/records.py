"""Parses messages into the records of a log: JSON, text, or raw bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import FEW_ROWS
from millstream.log.formats.json_lines import parse_block, parse_lines
from millstream.log.formats.rows import content_of
from millstream.log.formats.times import within_calendar
from millstream.records import log_schema
from millstream_connectors.kafka.client.batches import Records

__all__ = ["Format", "MessageParser"]

Format = Literal["json", "text", "raw"]

_TOMBSTONE = "tombstone: the message has no value"


@dataclass(frozen=True)
class MessageParser:
    """Parses messages into records, whose columns come from the parts of a message that the options name.

    `fields` maps columns to fields of a JSON value; text is the column `text`, raw bytes are the column `value`. `key`
    is the column of the message's key, `headers` maps columns to headers. With `message_time` the message's timestamp
    is the record's time.
    """

    format: Format
    fields: Mapping[str, str]
    key: str | None
    headers: Mapping[str, str]
    message_time: bool

    @property
    def columns(self) -> list[str]:
        """The columns in addition to `_offset`, `_time` and `_reject`."""
        own = {"json": [name for name in self.fields if name != "time"], "text": ["text"], "raw": ["value"]}
        return [*own[self.format], *([] if self.key is None else [self.key]), *self.headers]

    def parse(self, messages: Records) -> pa.RecordBatch:
        """The messages as records; a message that cannot be parsed is a reject."""
        values = messages.value_column()
        columns, time, reasons = self._values(values)
        if self.message_time:
            time = _times(messages.timestamps)
        if values.null_count:
            reasons = pc.if_else(pc.is_null(values), _TOMBSTONE, reasons)
        texts = {} if self.key is None else {self.key: ("key", messages.key_column())}
        texts |= {
            column: (f"header {name}", messages.header_column(name.encode())) for column, name in self.headers.items()
        }
        for column, (part, found) in texts.items():
            columns[column], invalid = _texts(found, f"{part} is ")
            reasons = pc.coalesce(reasons, invalid)
        arrays = [columns[name] for name in self.columns]
        if reasons.null_count < len(reasons):  # of a reject, only the time is kept
            good = pc.is_null(reasons)
            arrays = [pc.if_else(good, array, None) for array in arrays]
        position = [pa.array(messages.offsets), time, reasons]
        return pa.RecordBatch.from_arrays([*position, *arrays], schema=log_schema(self.columns))

    def _values(self, values: pa.Array) -> tuple[dict[str, pa.Array], pa.Array, pa.Array]:
        """The columns, the times and the reject reasons of the messages' values."""
        if self.format == "json":
            batch = _parse_json(pc.fill_null(values, b""), self.fields)
            _, time, reasons, *_ = batch.columns
            return dict(zip(batch.schema.names[3:], batch.columns[3:], strict=True)), time, reasons
        none = pa.nulls(len(values), pa.int64())
        if self.format == "text":
            texts, invalid = _texts(values, "")
            return {"text": texts}, none, invalid
        coded = [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()]
        return {"value": pa.array(coded, pa.string())}, none, pa.nulls(len(values), pa.string())


def _parse_json(values: pa.Array, fields: Mapping[str, str]) -> pa.RecordBatch:
    """Parse JSON objects: all together, unless there are few, or some of them span several lines."""
    if len(values) > FEW_ROWS:
        lines = bytes(content_of(pc.binary_join_element_wise(values, b"\n", b"")))
        if lines.count(b"\n") == len(values):
            return parse_block(lines, fields, 0)
    return parse_lines(values.to_pylist(), fields, 0)


def _texts(values: pa.Array, prefix: str) -> tuple[pa.Array, pa.Array]:
    """The values as text, and the reject reasons of values that are not text."""
    try:
        return values.cast(pa.string()), pa.nulls(len(values), pa.string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        invalid: list[str | None] = []
        for value in values.to_pylist():
            try:
                texts.append(None if value is None else value.decode())
                invalid.append(None)
            except UnicodeDecodeError as error:
                texts.append(None)
                invalid.append(f"{prefix}not UTF-8 at byte {error.start}")
        return pa.array(texts, pa.string()), pa.array(invalid, pa.string())


def _times(millis: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> pa.Array:
    """Timestamps in microseconds; -1 is a message without a timestamp."""
    micros = np.clip(millis, -1, 1 << 52) * 1000
    return pa.array(micros, mask=(millis < 0) | ~within_calendar(micros))

"""Rows of an output as messages: the row in JSON, its identity (or a column of it) as key, and a partition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from kafka.partitioner.default import murmur2

from millstream.errors import ConfigError
from millstream.log.contracts import Mark
from millstream.log.formats.rows import json_lines
from millstream_connectors.kafka.encoding import Message, Messages
from millstream_connectors.kafka.marks import Signature

__all__ = ["RowMessages"]


@dataclass(frozen=True)
class RowMessages:
    """Turns rows into messages, for the partitions of a topic.

    With several, a key decides, as with Java's producer; a row without one goes where its epoch's number points.
    """

    signature: Signature
    schema: pa.Schema
    identity: Sequence[str]
    key: str | None
    partitions: Sequence[int]

    def __post_init__(self) -> None:
        if self.key is not None and self.key not in self.schema.names:
            message = (
                f"sinks.{self.signature.output}.key: rows of {self.signature.output} have no column {self.key!r}; "
                f"they have {', '.join(self.schema.names)}"
            )
            raise ConfigError(message)

    def of(self, rows: pa.Table, mark: Mark, millis: int) -> Mapping[int, Messages]:
        """The messages of an epoch's rows, by partition."""
        values = json_lines(rows.select(self.schema.names)).split(b"\n")[:-1]
        content = list(zip(self._keys(rows), values, strict=True))
        header = self.signature.header(mark)
        if len(self.partitions) == 1:
            return {self.partitions[0]: Messages(content, header, millis)}
        parts: dict[int, list[Message]] = {}
        for message in content:
            parts.setdefault(self._partition(message[0], mark), []).append(message)
        return {number: Messages(part, header, millis) for number, part in sorted(parts.items())}

    def _keys(self, rows: pa.Table) -> list[bytes | None]:
        columns = [self.key] if self.key is not None else self.identity
        if not columns:
            return [None] * rows.num_rows
        texts = [_texts(rows[column]) for column in columns]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "/", null_handling="skip")
        keys: list[bytes | None] = joined.cast(pa.binary()).to_pylist()
        return keys

    def _partition(self, key: bytes | None, mark: Mark) -> int:
        chosen = mark.epoch if key is None else murmur2(key) & 0x7FFFFFFF
        return self.partitions[chosen % len(self.partitions)]

    def described(self, message: Message) -> str:
        """Which row a message is, for people."""
        row = json.loads(message[1])
        return ", ".join(f"{name} {row[name]}" for name in self.identity or self.schema.names[:1])


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as they stand in a row's JSON, without quotes."""
    if pa.types.is_timestamp(column.type):
        return pc.replace_substring(pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ"), ".000000Z", "Z")
    return column.cast(pa.string())

"""Encodes rows of an output as messages: the row in JSON, its identity or one of its columns as key, a partition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import ConfigError
from millstream.log.contracts import Progress
from millstream.log.formats.rows import json_lines
from millstream_connectors.kafka.client.encoder import Message, Messages
from millstream_connectors.kafka.client.partitioner import key_hash
from millstream_connectors.kafka.progress import Signature

__all__ = ["RowMessages"]


@dataclass(frozen=True)
class RowMessages:
    """Encodes rows as messages for the partitions of a topic.

    The key of a row selects the partition, as in Java's producer; a row without a key goes to the partition whose index
    is the epoch's number modulo the number of partitions.
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

    def encode(self, rows: pa.Table, progress: Progress, millis: int) -> Mapping[int, Messages]:
        """The messages of an epoch's rows, by partition."""
        values = json_lines(rows.select(self.schema.names)).split(b"\n")[:-1]
        content = list(zip(self._keys(rows), values, strict=True))
        header = self.signature.header(progress)
        if len(self.partitions) == 1:
            return {self.partitions[0]: Messages(content, header, millis)}
        parts: dict[int, list[Message]] = {}
        for message in content:
            parts.setdefault(self._partition(message[0], progress.epoch), []).append(message)
        return {number: Messages(part, header, millis) for number, part in sorted(parts.items())}

    def _keys(self, rows: pa.Table) -> list[bytes | None]:
        columns = [self.key] if self.key is not None else self.identity
        if not columns:
            return [None] * rows.num_rows
        texts = [_texts(rows[column]) for column in columns]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "/", null_handling="skip")
        keys: list[bytes | None] = joined.cast(pa.binary()).to_pylist()
        return keys

    def _partition(self, key: bytes | None, epoch: int) -> int:
        chosen = epoch if key is None else key_hash(key)
        return self.partitions[chosen % len(self.partitions)]

    def describe(self, message: Message) -> str:
        """The identity of the row in a message, for people."""
        row = json.loads(message[1])
        return ", ".join(f"{name} {row[name]}" for name in self.identity or self.schema.names[:1])


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values in the form that they have in a row's JSON, without quotes."""
    if pa.types.is_timestamp(column.type):
        return pc.replace_substring(pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ"), ".000000Z", "Z")
    return column.cast(pa.string())

"""Rows of epochs for a Kafka sink, and the messages that a plain consumer of its topic reads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.clients import connect_admin, connect_consumer
from support.kafka.topic_admin import wait_until_complete

from millstream.log.contracts import OpenContext, Progress
from millstream_connectors.kafka.progress import Signature
from millstream_connectors.kafka.sink import KafkaSink
from millstream_connectors.kafka.sink_writer import KafkaSinkWriter

__all__ = ["IDENTITY", "LOG", "SCHEMA", "SinkTopic", "epoch", "offsets_of", "progress", "read"]

SCHEMA = pa.schema(
    [
        ("_source", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("label", pa.string()),
        ("probability", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
IDENTITY = ("_source", "_partition", "_offset")
LOG = "an epoch log"
OUTPUT = "predictions"
MAX_ROWS = 1000
"""The maximal rows of an epoch, so that rows of different epochs have different offsets."""


def epoch(number: int, count: int = 3, label: str | None = 'a "label"\n') -> pa.Table:
    """The rows of an epoch."""
    offsets = range(number * MAX_ROWS, number * MAX_ROWS + count)
    return pa.table(
        {
            "_source": ["news"] * count,
            "_partition": [0] * count,
            "_offset": list(offsets),
            "label": [label] * count,
            "probability": [offset / 7 for offset in offsets],
            "at": [1_644_336_511_000_000 + offset for offset in offsets],
        },
        schema=SCHEMA,
    )


def progress(number: int, log: str = LOG) -> Progress:
    return Progress(log, number)


def read(tables: Iterator[pa.Table]) -> pa.Table:
    found = list(tables)
    assert all(table.schema.equals(SCHEMA) for table in found)
    return pa.concat_tables([SCHEMA.empty_table(), *found]).combine_chunks()


def offsets_of(*numbers: int, count: int = 3) -> list[int]:
    """The `_offset` of the rows of epochs."""
    return [offset for number in numbers for offset in range(number * MAX_ROWS, number * MAX_ROWS + count)]


@dataclass
class SinkTopic:
    """A sink for one output of a pipeline, in a topic of its own."""

    bootstrap: str
    topic: str
    pipeline: str = "conformance"
    output: str = OUTPUT
    options: Mapping[str, Any] = field(default_factory=lambda: {"timeout": f"{HANG_SECONDS}s"})

    @property
    def config(self) -> KafkaSink:
        return KafkaSink(bootstrap=self.bootstrap, topic=self.topic, **self.options)

    @property
    def context(self) -> OpenContext:
        return OpenContext(Path("base"), Path("run"), self.pipeline)

    @property
    def id(self) -> str:
        return Signature(self.pipeline, self.output, self.topic).id

    @contextmanager
    def opened(self, *, guarded: bool = True, fenced: bool = True) -> Iterator[KafkaSinkWriter]:
        sink = self.open(guarded=guarded)
        try:
            if fenced:
                sink.fence(0)
            yield sink
        finally:
            sink.close()

    def open(self, *, guarded: bool = True) -> KafkaSinkWriter:
        return self.config.open(self.context, self.output, SCHEMA, identity=IDENTITY, guarded=guarded)

    def progress(self) -> Progress | None:
        return self.config.progress(self.context, self.output)

    def read(self) -> pa.Table:
        return read(self.config.read(self.context, self.output, SCHEMA))

    def may_clear(self) -> None:
        self.config.may_clear(self.context, self.output)

    def clear(self) -> None:
        self.config.clear(self.context, self.output)

    def messages(self) -> list[Any]:
        """The committed messages, up to the current end, as a consumer of another program reads them."""
        wait_until_complete(self.bootstrap, self.id)
        consumer = connect_consumer(self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
        try:
            wait_until(lambda: bool(consumer.partitions_for_topic(self.topic)), f"metadata of {self.topic}")
            pairs = [TopicPartition(self.topic, number) for number in sorted(consumer.partitions_for_topic(self.topic))]
            consumer.assign(pairs)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(pairs)
            found: list[Any] = []

            def complete() -> bool:
                for some in consumer.poll(timeout_ms=100).values():
                    found.extend(some)
                return all(consumer.position(pair) >= ends[pair] for pair in pairs)

            wait_until(complete, f"the end of {self.topic}")
            return found
        finally:
            consumer.close()

    def offsets(self) -> list[int]:
        """The `_offset` of each row, in the order of the messages."""
        return [json.loads(message.value)["_offset"] for message in self.messages()]

    def epochs(self) -> Mapping[int, int]:
        """The number of rows of each epoch."""
        return Counter(offset // MAX_ROWS for offset in self.offsets())

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        admin = connect_admin(self.bootstrap)
        try:
            yield admin
        finally:
            admin.close()

    def forget_group(self) -> None:
        """Delete the group's offsets, as brokers do when they were not used for a week."""
        wait_until_complete(self.bootstrap, self.id)  # else the last commit could write the offsets again
        with self.admin() as admin:
            assert admin.delete_groups([self.id]) == {self.id: "OK"}

    def group(self) -> Mapping[int, OffsetAndMetadata]:
        """The group's offsets, by partition."""
        with self.admin() as admin:
            return {pair.partition: one for pair, one in admin.list_group_offsets(self.id)[self.id].items()}

    def forget_partition(self, partition: int) -> None:
        """Delete one of the group's offsets, as a user may do."""
        with self.admin() as admin:
            admin.delete_group_offsets(self.id, [TopicPartition(self.topic, partition)])

    def set_group(self, offset: int, metadata: str, partition: int = 0) -> None:
        """Set one of the group's offsets, as a user may do."""
        with self.admin() as admin:
            admin.alter_group_offsets(
                self.id, {TopicPartition(self.topic, partition): OffsetAndMetadata(offset, metadata, -1)}
            )

    def remove_rows(self, before: int = -1, partition: int = 0) -> None:
        """Remove messages, as retention does, or a user."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(self.topic, partition): before})

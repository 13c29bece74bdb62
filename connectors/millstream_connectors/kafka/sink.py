"""The Kafka sink of a config: an output's rows as messages of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.config.durations import Duration
from millstream.errors import Contradiction
from millstream.log.contracts import Mark, Place
from millstream_connectors.kafka.access import Access
from millstream_connectors.kafka.addresses import Bootstrap, TopicName
from millstream_connectors.kafka.clearing import check, clear
from millstream_connectors.kafka.cluster import Cluster, Topic
from millstream_connectors.kafka.marks import Signature
from millstream_connectors.kafka.messages import RowMessages
from millstream_connectors.kafka.rows import KafkaRows
from millstream_connectors.kafka.security import Security
from millstream_connectors.kafka.waiting import HURRY_SECONDS

__all__ = ["KafkaSink"]


class KafkaSink(BaseModel):
    """Rows as messages of a topic: the value is the row in JSON, as `millstream read` prints it.

    >>> from pathlib import Path
    >>> sink = KafkaSink(bootstrap="127.0.0.1:9092", topic="popular")
    >>> sink.location(Place(Path("configs"), Path("runs/news")), "topics")
    'kafka://127.0.0.1:9092/popular'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["kafka"] = "kafka"
    bootstrap: Bootstrap = Field(description="Brokers to begin with: `host:port`, several with commas between them.")
    topic: TopicName = Field(description="The topic.")
    key: str | None = Field(
        default=None,
        description="A column whose text is the message's key; by default what tells one row from another.",
    )
    create: bool = Field(default=True, description="Make the topic if it is not there.")
    partitions: int = Field(default=1, ge=1, description="How many partitions it is made with.")
    patience: Duration = Field(default=120_000_000, description="How long a broker that is away is waited for.")
    security: Security | None = Field(default=None, description="TLS and passwords, if the brokers want them.")

    def open(
        self, place: Place, output: str, schema: pa.Schema, *, identity: Sequence[str] = (), guarded: bool = True
    ) -> KafkaRows:
        access = self._access(place, output)
        try:
            partitions = (access.topic() or self._create(access)).partitions
            messages = RowMessages(access.signature, schema, identity, self.key, partitions)
            return KafkaRows(access, messages, lambda: self.read(place, output, schema), guarded=guarded)
        except BaseException:
            access.close()
            raise

    def read(self, place: Place, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        with closing(self._access(place, output)) as access:
            yield from access.rows(schema)

    def problems(self, place: Place) -> Iterable[tuple[str, str]]:
        return [("security", problem) for problem in self.security.problems(place.base)] if self.security else []

    def mark(self, place: Place, output: str) -> Mark | None:
        with closing(self._access(place, output)) as access:
            return access.marks.look().mark

    def location(self, place: Place, output: str) -> str:
        return f"kafka://{self.bootstrap}/{self.topic}"

    def may_clear(self, place: Place, output: str) -> None:
        """Refuse if the topic has messages of others, or the brokers would delete none."""
        with closing(self._access(place, output)) as access:
            check(access)

    def clear(self, place: Place, output: str) -> None:
        """Delete the rows, and the group's offsets; refused if the topic has messages of others."""
        with closing(self._access(place, output)) as access:
            clear(access)

    def _access(self, place: Place, output: str) -> Access:
        seconds = self.patience / 1e6
        seconds = min(seconds, HURRY_SECONDS) if place.hurry else seconds
        cluster = Cluster(self.bootstrap, self.security, seconds, place.base, place.stopped)
        return Access(cluster, Signature(place.pipeline, output, self.topic), self.location(place, output), seconds)

    def _create(self, access: Access) -> Topic:
        if not self.create:
            message = f"there is no {access.where}; make the topic, or say `create: true`"
            raise Contradiction(message)
        return access.cluster.create(self.topic, self.partitions)

"""The Kafka sink of a config: it writes an output's rows as messages to a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.config.durations import Duration
from millstream.errors import Contradiction
from millstream.log.contracts import OpenContext, Progress
from millstream_connectors.kafka.client.cluster import Cluster, Topic
from millstream_connectors.kafka.client.security import Security
from millstream_connectors.kafka.errors import millstream_errors
from millstream_connectors.kafka.messages import RowMessages
from millstream_connectors.kafka.options import FAIL_FAST_SECONDS, Bootstrap, TopicName
from millstream_connectors.kafka.output_topic import OutputTopic
from millstream_connectors.kafka.progress import Signature
from millstream_connectors.kafka.sink_writer import KafkaSinkWriter
from millstream_connectors.kafka.topic_deletion import check_deletion, delete_output

__all__ = ["KafkaSink"]


class KafkaSink(BaseModel):
    """Writes rows as messages to a topic: the value is the row in JSON, as `millstream read` prints it.

    >>> from pathlib import Path
    >>> sink = KafkaSink(bootstrap="127.0.0.1:9092", topic="popular")
    >>> sink.location(OpenContext(Path("configs"), Path("runs/news")), "topics")
    'kafka://127.0.0.1:9092/popular'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["kafka"] = "kafka"
    bootstrap: Bootstrap = Field(
        description="Brokers to connect to first: `host:port`, several with commas between them."
    )
    topic: TopicName = Field(description="The topic.")
    key: str | None = Field(
        default=None,
        description="The column whose text is the message's key; by default the row's identity.",
    )
    create: bool = Field(default=True, description="Create the topic if it does not exist.")
    partitions: int = Field(default=1, ge=1, description="The number of partitions of a topic that is created.")
    timeout: Duration = Field(default=120_000_000, description="How long to retry while the brokers are unavailable.")
    security: Security | None = Field(default=None, description="TLS and passwords, if the brokers require them.")

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> KafkaSinkWriter:
        topic = self._connect(context, output)
        try:
            with millstream_errors():
                partitions = (topic.topic() or self._create(topic)).partitions
                messages = RowMessages(topic.signature, schema, identity, self.key, partitions)
                return KafkaSinkWriter(topic, messages, lambda: self.read(context, output, schema), guarded=guarded)
        except BaseException:
            topic.close()
            raise

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        with self._connected(context, output) as topic:
            yield from topic.rows(schema)

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        return [("security", problem) for problem in self.security.problems(context.folder)] if self.security else []

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        with self._connected(context, output) as topic:
            return topic.progress.find().progress

    def location(self, context: OpenContext, output: str) -> str:
        return f"kafka://{self.bootstrap}/{self.topic}"

    def may_clear(self, context: OpenContext, output: str) -> None:
        """Refuse if the topic has messages of others, or the brokers would delete none."""
        with self._connected(context, output) as topic:
            check_deletion(topic)

    def clear(self, context: OpenContext, output: str) -> None:
        """Delete the rows, and the group's offsets; refused if the topic has messages of others."""
        with self._connected(context, output) as topic:
            delete_output(topic)

    @contextmanager
    def _connected(self, context: OpenContext, output: str) -> Iterator[OutputTopic]:
        with millstream_errors(), closing(self._connect(context, output)) as topic:
            yield topic

    def _connect(self, context: OpenContext, output: str) -> OutputTopic:
        seconds = self.timeout / 1e6
        seconds = min(seconds, FAIL_FAST_SECONDS) if context.fail_fast else seconds
        cluster = Cluster(self.bootstrap, self.security, seconds, context.folder, context.stopped)
        signature = Signature(context.pipeline, output, self.topic)
        return OutputTopic(cluster, signature, self.location(context, output), seconds)

    def _create(self, topic: OutputTopic) -> Topic:
        if not self.create:
            message = f"there is no {topic.location}; create the topic, or set `create: true`"
            raise Contradiction(message)
        return topic.cluster.create(self.topic, self.partitions)

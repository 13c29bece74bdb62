"""The Kafka source of a config: it reads messages of topics as records, at Kafka's own offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from millstream.config.durations import Duration, parse_duration
from millstream.log.contracts import OpenContext
from millstream_connectors.fields import USUAL_FIELDS, Fields
from millstream_connectors.kafka.client.cluster import Isolation
from millstream_connectors.kafka.client.security import Security
from millstream_connectors.kafka.log import KafkaLog
from millstream_connectors.kafka.options import Bootstrap, TopicName
from millstream_connectors.kafka.records import Format, MessageParser
from millstream_connectors.kafka.start_position import AtOffsets, StartPosition

__all__ = ["KafkaSource"]


def _expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"not a regular expression: {error}"
        raise ValueError(message) from None
    return pattern


_Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
_FREE: dict[str, Any] = {"may_change": True}


class KafkaSource(BaseModel):
    """Reads messages of Kafka topics, a partition for each of their partitions, at Kafka's own offsets.

    Only committed messages are read; gaps between offsets, which transactions and compaction leave, are skipped. A run
    follows its topics, and partitions that are added to them, until it is stopped.

    >>> source = KafkaSource.model_validate({"bootstrap": "127.0.0.1:9092", "topic": "news", "from": "latest"})
    >>> source.fields, source.bounded
    (['text', 'label', 'time'], False)
    >>> from pathlib import Path
    >>> list(KafkaSource(bootstrap="127.0.0.1:9092").problems(OpenContext(Path(), Path())))
    [('topic', 'no topic is given: set `topic`, `topics: [...]` or `pattern`')]
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    type: Literal["kafka"] = "kafka"
    bootstrap: Bootstrap = Field(
        description="Brokers to connect to first: `host:port`, several with commas between them.",
        json_schema_extra=_FREE,
    )
    topic: TopicName | None = Field(default=None, description="The topic to read.")
    topics: list[TopicName] | None = Field(default=None, min_length=1, description="Several topics to read.")
    pattern: Annotated[str, AfterValidator(_expression)] | None = Field(
        default=None,
        min_length=1,
        description="A regular expression: all topics whose whole name matches are read, also later ones.",
    )
    start: StartPosition = Field(
        default="earliest",
        alias="from",
        description="The start position of a partition that was never read; one that is added during the run "
        "starts at its first message.",
    )
    format: Format = Field(
        default="json",
        description="The format of values: JSON; text in UTF-8 (column `text`); or bytes (column `value`, as base64).",
    )
    message_time: bool = Field(default=False, description="Take the message's timestamp as the record's time.")
    json_fields: Fields | None = Field(default=None, alias="fields", validate_default=True)
    key: _Name | None = Field(default=None, description="The column for the message's key, as text.")
    headers: dict[_Name, str] = Field(
        default={}, description="Columns for headers of the message, as text: `column: header`."
    )
    isolation: Isolation = Field(
        default="read_committed",
        description="Wait for the end of transactions and skip aborted ones (`read_committed`), or read all messages.",
    )
    on_truncated: Literal["fail", "earliest"] = Field(
        default="fail",
        description="If unread messages were removed: stop, or continue with the first remaining message.",
        json_schema_extra=_FREE,
    )
    create: bool = Field(default=False, description="Create a topic that does not exist.", json_schema_extra=_FREE)
    partitions: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="The number of partitions of a topic that is created.",
        json_schema_extra=_FREE,
    )
    timeout: Duration = Field(
        default=parse_duration("2m"),
        gt=0,
        description="How long to retry while the brokers are unavailable.",
        json_schema_extra=_FREE,
    )
    security: Security | None = Field(
        default=None, description="TLS and passwords; by default neither.", json_schema_extra=_FREE
    )

    @field_validator("json_fields")
    @classmethod
    def _usual_fields(cls, fields: dict[str, str] | None, options: ValidationInfo) -> dict[str, str] | None:
        """Set the default fields of JSON values, so that other processes get the same fields in the config."""
        if fields is not None or options.data.get("format") != "json":
            return fields
        return {
            name: USUAL_FIELDS[name] for name in USUAL_FIELDS if name != "time" or not options.data.get("message_time")
        }

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.format != "json" and self.json_fields is not None:
            message = f"`fields` selects fields of JSON values, and `format` is {self.format}: leave them out"
            raise ValueError(message)
        if self.message_time and "time" in (self.json_fields or ()):
            message = "the time would come from the message and from a field: leave out message_time, or fields.time"
            raise ValueError(message)
        columns = ["time", *self.parser.columns]
        if twice := sorted({name for name in columns if columns.count(name) > 1}):
            message = f"two columns are called {twice[0]}; give each of fields, key and headers a name of its own"
            raise ValueError(message)
        return self

    @property
    def parser(self) -> MessageParser:
        return MessageParser(self.format, self.json_fields or {}, self.key, self.headers, self.message_time)

    @property
    def names(self) -> Sequence[str] | None:
        """The topics, unless they are given by a pattern."""
        return [self.topic] if self.topic is not None else self.topics

    @property
    def fields(self) -> Sequence[str]:
        timed = self.message_time or "time" in (self.json_fields or ())
        return [*self.parser.columns, *(["time"] if timed else [])]

    @property
    def bounded(self) -> bool:
        return False

    def problems(self, context: OpenContext) -> Iterator[tuple[str, str]]:
        asked = {"topic": self.topic, "topics": self.topics, "pattern": self.pattern}
        given = [name for name, value in asked.items() if value is not None]
        if not given:
            yield "topic", "no topic is given: set `topic`, `topics: [...]` or `pattern`"
        if len(given) > 1:
            yield given[1], f"`{given[0]}` is given too; a source has one of topic, topics and pattern"
        if self.topics is not None and len(set(self.topics)) < len(self.topics):
            yield "topics", "a topic is given twice"
        if isinstance(self.start, AtOffsets) and self.topic is None:
            yield "from", "offsets need one `topic`; for several topics, start at a timestamp, earliest or latest"
        if self.create and self.pattern is not None:
            yield (
                "create",
                "a pattern names no topic to create; leave `create` out, and the source waits for topics that match",
            )
        if self.security is not None:
            yield from (("security", problem) for problem in self.security.problems(context.folder))

    def reads(self, context: OpenContext, location: str) -> bool:
        bootstrap, _, topic = location.removeprefix("kafka://").partition("/")
        named = topic in (self.names or ()) or (self.pattern is not None and re.fullmatch(self.pattern, topic))
        return location.startswith("kafka://") and bootstrap == self.bootstrap and bool(named)

    def open(self, context: OpenContext) -> KafkaLog:
        return KafkaLog(self, context)

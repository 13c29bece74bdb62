"""The Kafka source: messages of topics as records, at Kafka's own offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from millstream.config.durations import Duration, parse_duration
from millstream.log.contracts import Place
from millstream_connectors.fields import USUAL_FIELDS, Fields
from millstream_connectors.kafka.addresses import Bootstrap, TopicName
from millstream_connectors.kafka.begins import AtOffsets, Begin
from millstream_connectors.kafka.cluster import Isolation
from millstream_connectors.kafka.log import KafkaLog
from millstream_connectors.kafka.records import Format, Reading
from millstream_connectors.kafka.security import Security

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
    """Messages of Kafka topics, one partition each of theirs, at Kafka's own offsets.

    What is committed is read; gaps, which transactions and compaction leave, are passed. A run follows its topics, and
    what is added to them, until it is stopped.

    >>> source = KafkaSource.model_validate({"bootstrap": "127.0.0.1:9092", "topic": "news", "from": "latest"})
    >>> source.fields, source.bounded
    (['text', 'label', 'time'], False)
    >>> from pathlib import Path
    >>> list(KafkaSource(bootstrap="127.0.0.1:9092").problems(Place(Path(), Path())))
    [('topic', 'say what to read: `topic`, or `topics: [...]`, or `pattern`')]
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    type: Literal["kafka"] = "kafka"
    bootstrap: Bootstrap = Field(
        description="Where to find the brokers: `host:port`, several with commas between them.",
        json_schema_extra=_FREE,
    )
    topic: TopicName | None = Field(default=None, description="The topic to read.")
    topics: list[TopicName] | None = Field(default=None, min_length=1, description="Or several.")
    pattern: Annotated[str, AfterValidator(_expression)] | None = Field(
        default=None, min_length=1, description="Or all whose whole name matches, those too that are made later."
    )
    begin: Begin = Field(
        default="earliest",
        alias="from",
        description="Where a partition begins that was never read; one that is added while the source is read begins "
        "at its first message.",
    )
    format: Format = Field(
        default="json",
        description="What a value is: JSON; UTF-8, for the column `text`; or bytes, as base64 for the column `value`.",
    )
    message_time: bool = Field(default=False, description="Whether a record's time is the message's own timestamp.")
    json_fields: Fields | None = Field(default=None, alias="fields", validate_default=True)
    key: _Name | None = Field(default=None, description="The column that takes the message's key, as text.")
    headers: dict[_Name, str] = Field(
        default={}, description="Which of the message's headers to take, as text: `ours: theirs`."
    )
    isolation: Isolation = Field(
        default="read_committed", description="Whether to wait for the end of transactions, and leave out aborted ones."
    )
    on_truncated: Literal["fail", "earliest"] = Field(
        default="fail",
        description="What to do if messages were removed that have not been read: stop, or go on with the first left.",
        json_schema_extra=_FREE,
    )
    create: bool = Field(
        default=False, description="Whether to make a topic that is not there.", json_schema_extra=_FREE
    )
    partitions: int = Field(
        default=1, ge=1, le=100_000, description="How many partitions it is made with.", json_schema_extra=_FREE
    )
    patience: Duration = Field(
        default=parse_duration("2m"),
        gt=0,
        description="How long to wait for brokers that are away.",
        json_schema_extra=_FREE,
    )
    security: Security | None = Field(
        default=None, description="TLS and passwords; by default neither.", json_schema_extra=_FREE
    )

    @field_validator("json_fields")
    @classmethod
    def _usual_fields(cls, fields: dict[str, str] | None, options: ValidationInfo) -> dict[str, str] | None:
        """Those of JSON values unless others are given: then the fields that are told to other processes are those."""
        if fields is not None or options.data.get("format") != "json":
            return fields
        return {
            name: USUAL_FIELDS[name] for name in USUAL_FIELDS if name != "time" or not options.data.get("message_time")
        }

    @model_validator(mode="after")
    def _one_of_a_kind(self) -> Self:
        if self.format != "json" and self.json_fields is not None:
            message = f"`fields` are those of JSON values, and `format` is {self.format}: leave them out"
            raise ValueError(message)
        if self.message_time and "time" in (self.json_fields or ()):
            message = "the time is to come from the message and from a field: leave out message_time, or fields.time"
            raise ValueError(message)
        columns = ["time", *self.reading.columns]
        if twice := sorted({name for name in columns if columns.count(name) > 1}):
            message = f"two columns are called {twice[0]}; give each of fields, key and headers a name of its own"
            raise ValueError(message)
        return self

    @property
    def reading(self) -> Reading:
        return Reading(self.format, self.json_fields or {}, self.key, self.headers, self.message_time)

    @property
    def names(self) -> Sequence[str] | None:
        """The topics, if they are named."""
        return [self.topic] if self.topic is not None else self.topics

    @property
    def fields(self) -> Sequence[str]:
        timed = self.message_time or "time" in (self.json_fields or ())
        return [*self.reading.columns, *(["time"] if timed else [])]

    @property
    def bounded(self) -> bool:
        return False

    def problems(self, place: Place) -> Iterator[tuple[str, str]]:
        asked = {"topic": self.topic, "topics": self.topics, "pattern": self.pattern}
        given = [name for name, value in asked.items() if value is not None]
        if not given:
            yield "topic", "say what to read: `topic`, or `topics: [...]`, or `pattern`"
        if len(given) > 1:
            yield given[1], f"`{given[0]}` is given too; a source has one of topic, topics and pattern"
        if self.topics is not None and len(set(self.topics)) < len(self.topics):
            yield "topics", "a topic is given twice"
        if isinstance(self.begin, AtOffsets) and self.topic is None:
            yield "from", "offsets are those of one `topic`; for several, begin at a timestamp, earliest or latest"
        if self.create and self.pattern is not None:
            yield "create", "a pattern has no topic to make; leave it out, and the source waits for topics that match"
        if self.security is not None:
            yield from (("security", problem) for problem in self.security.problems(place.base))

    def reads(self, place: Place, location: str) -> bool:
        bootstrap, _, topic = location.removeprefix("kafka://").partition("/")
        named = topic in (self.names or ()) or (self.pattern is not None and re.fullmatch(self.pattern, topic))
        return location.startswith("kafka://") and bootstrap == self.bootstrap and bool(named)

    def open(self, place: Place) -> KafkaLog:
        return KafkaLog(self, place)

"""Every exception that the client raises on purpose.

KafkaClientError
├── RequestRefused         no retry can help: a wrong password, a forbidden topic, a broker that is too old
├── RetryTimeout           no success within the timeout
├── RetryStopped           the caller stopped while the client was retrying
├── InvalidSecurity        the TLS and password options cannot be used on this machine
├── InvalidData            a record batch cannot be read
├── TopicAltered           a topic does not have its earlier messages
│   ├── TopicRecreated     it was deleted and created again
│   └── MessagesLost       its messages are gone or damaged, although nothing has removed them
├── OffsetRemoved          the brokers have removed the messages at a requested offset
├── MessageTooLarge        a message is larger than its topic allows
└── Fenced                 another producer has taken over the transactional id
"""

from __future__ import annotations

__all__ = [
    "Fenced",
    "InvalidData",
    "InvalidSecurity",
    "KafkaClientError",
    "MessageTooLarge",
    "MessagesLost",
    "OffsetRemoved",
    "RequestRefused",
    "RetryStopped",
    "RetryTimeout",
    "TopicAltered",
    "TopicRecreated",
]


class KafkaClientError(Exception):
    """The base class of all errors of the client."""


class RequestRefused(KafkaClientError):
    """A request failed, and would fail again."""


class RetryTimeout(KafkaClientError):
    """All attempts failed until the timeout; `unreachable` if no broker has answered the last one."""

    def __init__(self, message: str, *, unreachable: bool = False) -> None:
        super().__init__(message)
        self.unreachable = unreachable


class RetryStopped(KafkaClientError):
    """The caller stopped while the client was retrying."""


class InvalidSecurity(KafkaClientError):
    """A file or an environment variable that the security options name cannot be used."""


class InvalidData(KafkaClientError):
    """A record batch cannot be read; `offset` is its first offset."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class TopicAltered(KafkaClientError):
    """A topic does not have its earlier messages."""


class TopicRecreated(TopicAltered):
    """A topic was deleted and created again: it has the same name and another id."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} was deleted and created again while it was read")
        self.topic = topic


class MessagesLost(TopicAltered):
    """Messages are gone or damaged, although neither retention nor compaction has removed them."""


class OffsetRemoved(KafkaClientError):
    """A requested offset is lower than `first`, the first offset that the partition still has."""

    def __init__(self, partition: str, requested: int, first: int) -> None:
        super().__init__(
            f"{partition}: offset {requested:,} is requested, and the brokers have removed all before {first:,}"
        )
        self.partition, self.requested, self.first = partition, requested, first


class MessageTooLarge(KafkaClientError):
    """A message is larger than its topic allows; `index` is its position among the messages for the partition."""

    def __init__(self, partition: int, index: int, size: int) -> None:
        super().__init__(f"message {index} for partition {partition} takes {size:,} bytes, more than the topic allows")
        self.partition, self.index, self.size = partition, index, size


class Fenced(KafkaClientError):
    """Another producer has taken over the transactional id."""

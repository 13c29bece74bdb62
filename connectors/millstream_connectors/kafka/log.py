"""Kafka topics as a log: each partition of a topic is a partition of the log."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.errors import Contradiction
from millstream.log.contracts import OpenContext, Partition
from millstream.suggestions import suggestion
from millstream_connectors.kafka.client.cluster import Cluster, Pair, Topic, partition_name
from millstream_connectors.kafka.client.errors import OffsetRemoved, TopicRecreated
from millstream_connectors.kafka.client.fetcher import Fetcher
from millstream_connectors.kafka.errors import millstream_errors
from millstream_connectors.kafka.offset_cache import EndOffsetCache, OffsetCache
from millstream_connectors.kafka.options import FAIL_FAST_SECONDS
from millstream_connectors.kafka.start_position import AtTime
from millstream_connectors.kafka.topic_ids import TopicIds

if TYPE_CHECKING:
    from millstream_connectors.kafka.source import KafkaSource

__all__ = ["KafkaLog"]

_LOGGER = logging.getLogger(__name__)

_LISTING_SECONDS = 1.0
"""The pause between two listings of all topics of a cluster, in search of those that match a pattern."""
_DELETED_SECONDS = 5.0
"""A topic counts as deleted when it has been unknown for so long: brokers learn of a new topic one after the other."""


class KafkaLog:
    """The topics of a `KafkaSource`; it connects at the first call, in the process that makes the call.

    While the brokers are unavailable, methods other than `read` return the last known values, until the timeout; `read`
    waits.
    """

    def __init__(self, config: KafkaSource, context: OpenContext) -> None:
        self._config = config
        self._read_only = context.fail_fast
        timeout = FAIL_FAST_SECONDS if context.fail_fast else config.timeout / 1e6
        self._cluster = Cluster(config.bootstrap, config.security, timeout, context.folder, context.stopped)
        self._fetcher = Fetcher(self._cluster, config.isolation, skip_removed=config.on_truncated == "earliest")
        self._parser = config.parser
        self._topics: dict[str, Topic] | None = None
        self._listed = 0.0
        self._missing: dict[str, float] = {}
        self._ids_file = TopicIds(context.cache)
        self._expected_ids: Mapping[str, str] = {}
        self._first_offsets = OffsetCache(self._cluster.beginnings)
        self._start_offsets = OffsetCache(self._request_start_offsets)
        self._end_offsets = EndOffsetCache(
            lambda pairs: self._cluster.ends(pairs, config.isolation),
            lambda pairs: self._cluster.ends_briefly(pairs, config.isolation),
        )

    @property
    def fields(self) -> Sequence[str]:
        return self._parser.columns

    @millstream_errors()
    def partitions(self) -> Sequence[Partition]:
        """All partitions, by topic and number; with one topic, `_partition` is Kafka's number."""
        self._update_topics()
        one_topic = self._config.topic is not None
        return [Partition(partition_name(pair), pair[1] if one_topic else None) for pair in self._known()]

    @millstream_errors()
    def beginning(self, partition: str, *, joined: bool = False) -> int:
        """The offset that `from` selects; for a partition that was added during the run, its first message."""
        pair, start = _pair(partition), self._config.start
        if joined:
            return self._resume(pair, 0)  # messages that were removed before the run found the partition belonged to it
        if start == "earliest":
            return self._first(pair)
        if start == "latest" or isinstance(start, AtTime):
            return self._start_offsets.get(pair, self._known())
        wanted = start.offsets.get(pair[1])
        if wanted is None:
            return self._first(pair)
        end = self._start_offsets.get(pair, self._known())
        if wanted > end:
            message = f"`from` has offset {wanted:,} for {partition}, which ends at {end:,}"
            raise Contradiction(message)
        return self._resume(pair, wanted)

    @millstream_errors()
    def resume(self, partition: str, wanted: int) -> int:
        """The wanted offset; if it was removed and `on_truncated` allows, the first remaining one."""
        return self._resume(_pair(partition), wanted)

    @millstream_errors()
    def end(self, partition: str) -> int:
        """The end of the readable messages some milliseconds ago, never less than before.

        Lost messages are detected by `read`.
        """
        return self._end_offsets.get(_pair(partition), self._known())

    def is_current(self, partition: str) -> bool:
        return self._end_offsets.is_current

    def ended(self, partition: str) -> bool:
        return False

    @millstream_errors()
    def identity(self, partition: str, upto: int) -> str:
        """The id of the topic, which changes when the topic is deleted and created again."""
        known = self._topics or self._update_topics()
        return f"topic id {known[_pair(partition)[0]].id} of cluster {self._cluster.id}"

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        pair = _pair(partition)
        with millstream_errors():
            for messages in self._fetcher.read(pair, start, stop, self._expected_id(pair[0])):
                yield self._parser.parse(messages)

    def close(self) -> None:
        self._cluster.close()

    def _first(self, pair: Pair) -> int:
        return self._first_offsets.get(pair, self._known())

    def _resume(self, pair: Pair, wanted: int) -> int:
        first = self._first(pair)
        if wanted >= first:
            return wanted
        name = partition_name(pair)
        if self._config.on_truncated == "fail":
            raise OffsetRemoved(name, wanted, first)
        _LOGGER.warning("%s: offsets %d to %d were removed, continuing at %d", name, wanted, first - 1, first)
        return first

    def _request_start_offsets(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """The offsets at the timestamp in `from`; without a timestamp, the ends."""
        if isinstance(self._config.start, AtTime):
            return self._cluster.offsets_at(pairs, self._config.start.micros, self._config.isolation)
        return self._cluster.ends(pairs, self._config.isolation)

    # Topics

    def _expected_id(self, name: str) -> str | None:
        """The id of a topic as this log has seen it, or as the process that lists the topics has written it."""
        if self._topics is not None:
            return self._topics[name].id if name in self._topics else None
        if name not in self._expected_ids:
            self._expected_ids = self._ids_file.read()
        return self._expected_ids.get(name)

    def _known(self) -> list[Pair]:
        topics = self._topics or {}
        return [pair for name in sorted(topics) for pair in topics[name].pairs]

    def _update_topics(self) -> Mapping[str, Topic]:
        """The current topics; the last known ones if no broker answers."""
        names, now = self._config.names, time.monotonic()
        if self._topics is None:
            self._topics = self._first_topics(self._matching(self._cluster.topics(names)))
        elif names is not None or now - self._listed >= _LISTING_SECONDS:
            found = self._cluster.topics_briefly(names)
            if found is not None:
                self._compare(self._topics, self._matching(found), now)
                self._topics |= self._matching(found)
        else:
            return self._topics
        if not self._read_only:
            self._ids_file.write({name: topic.id for name, topic in self._topics.items()})
        self._listed = now
        return self._topics

    def _matching(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        pattern = self._config.pattern
        return {name: topic for name, topic in topics.items() if pattern is None or re.fullmatch(pattern, name)}

    def _first_topics(self, found: dict[str, Topic]) -> dict[str, Topic]:
        """The topics at the start: a missing one is created or refused."""
        missing = [name for name in self._config.names or () if name not in found]
        if deleted := sorted(self._ids_file.read().keys() & missing):
            message = (
                f"topic {deleted[0]} was read by this run and no longer exists at {self._config.bootstrap}: "
                "if it was deleted, start over with --fresh"
            )
            raise Contradiction(message)
        if missing and self._config.create and not self._read_only:
            return found | {name: self._cluster.create(name, self._config.partitions) for name in missing}
        if missing:
            self._refuse(missing[0])
        if not found and not self._read_only:
            _LOGGER.warning("no topic matches %s yet; waiting for one", self._config.pattern)
        self._check_start_offsets(found)
        return found

    def _check_start_offsets(self, found: Mapping[str, Topic]) -> None:
        """Refuse offsets in `from` for partitions that the topic does not have."""
        start = self._config.start
        if self._config.topic is None or isinstance(start, str | AtTime):
            return
        numbers = found[self._config.topic].partitions
        if unknown := sorted(start.offsets.keys() - numbers):
            message = (
                f"`from` has an offset for partition {unknown[0]} of {self._config.topic}, "
                f"whose partitions are 0 to {numbers[-1]}"
            )
            raise Contradiction(message)

    def _refuse(self, name: str) -> None:
        message = (
            f"there is no topic {name} at {self._config.bootstrap}; `create: true` makes it, and so does "
            f"`millstream log append kafka://{self._config.bootstrap}/{name}`"
            f"{suggestion(name, self._cluster.topics())}"
        )
        raise Contradiction(message)

    def _compare(self, known: Mapping[str, Topic], found: Mapping[str, Topic], now: float) -> None:
        """Refuse topics that were deleted, or replaced by others of the same name."""
        for name, topic in known.items():
            if name not in found:
                if now - self._missing.setdefault(name, now) >= _DELETED_SECONDS:
                    message = f"topic {name} was deleted while it was read; start over with --fresh"
                    raise Contradiction(message)
            else:
                self._missing.pop(name, None)
                if found[name].id != topic.id:
                    raise TopicRecreated(name)


def _pair(partition: str) -> Pair:
    topic, _, number = partition.rpartition("/")
    return topic, int(number)

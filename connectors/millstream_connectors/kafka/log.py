"""Topics as a log: each of their partitions is one of its."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.errors import AlteredLog, Contradiction, Truncated
from millstream.log.contracts import Partition, Place
from millstream.suggestions import suggestion
from millstream_connectors.kafka.begins import AtTime
from millstream_connectors.kafka.cluster import Cluster, Pair, Topic, named
from millstream_connectors.kafka.edges import Edges, Ends
from millstream_connectors.kafka.fetching import Fetcher, made_again, removed
from millstream_connectors.kafka.ids import TopicIds
from millstream_connectors.kafka.waiting import HURRY_SECONDS

if TYPE_CHECKING:
    from millstream_connectors.kafka.source import KafkaSource

__all__ = ["KafkaLog"]

_LOGGER = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""How often all topics of a cluster are looked through for those that match a pattern."""
_GONE_SECONDS = 5.0
"""How long a topic has to be unknown to be gone: one that was just made is not known to all brokers at once."""


class KafkaLog:
    """The topics of a `KafkaSource`; connects when it is first asked, in the process that asks.

    While the brokers are away after they have answered once, what was known last is told, until patience is used up;
    reading waits.
    """

    def __init__(self, config: KafkaSource, place: Place) -> None:
        self._config = config
        self._hurry = place.hurry
        patience = HURRY_SECONDS if place.hurry else config.patience / 1e6
        self._cluster = Cluster(config.bootstrap, config.security, patience, place.base, place.stopped)
        self._fetcher = Fetcher(self._cluster, config.isolation, skip_removed=config.on_truncated == "earliest")
        self._reading = config.reading
        self._topics: dict[str, Topic] | None = None
        self._looked = 0.0
        self._missing: dict[str, float] = {}
        self._ids = TopicIds(place.cache)
        self._told: Mapping[str, str] = {}
        self._firsts = Edges(self._cluster.beginnings)
        self._begins = Edges(self._offsets_of_begin)
        self._ends = Ends(
            lambda pairs: self._cluster.ends(pairs, config.isolation),
            lambda pairs: self._cluster.ends_briefly(pairs, config.isolation),
        )

    @property
    def fields(self) -> Sequence[str]:
        return self._reading.columns

    def partitions(self) -> Sequence[Partition]:
        """All partitions, by topic and number; their number is `_partition` if there is one topic."""
        self._looked_for()
        alone = self._config.topic is not None
        return [Partition(named(pair), pair[1] if alone else None) for pair in self._known()]

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        """Where `from` says; for a partition that was added while the source was read, its first message."""
        pair, begin = _pair(partition), self._config.begin
        if joined:
            return self.resume(partition, 0)  # what was removed of it before it was found belonged to the run
        if begin == "earliest":
            return self._first(pair)
        if begin == "latest" or isinstance(begin, AtTime):
            return self._begins.of(pair, self._known())
        wanted = begin.offsets.get(pair[1])
        if wanted is None:
            return self._first(pair)
        end = self._begins.of(pair, self._known())
        if wanted > end:
            message = f"`from` says offset {wanted:,} of {partition}, which ends at {end:,}"
            raise Contradiction(message)
        return self.resume(partition, wanted)

    def resume(self, partition: str, wanted: int) -> int:
        """There, or at the first message that is left, if `on_truncated` says so."""
        first = self._first(_pair(partition))
        if wanted >= first:
            return wanted
        if self._config.on_truncated == "fail":
            raise Truncated(removed(_pair(partition), wanted, first))
        _LOGGER.warning("%s: offsets %d to %d were removed, going on at %d", partition, wanted, first - 1, first)
        return first

    def end(self, partition: str) -> int:
        """Where what can be read ended a few milliseconds ago, never less than was told before.

        A topic that has really lost messages is found out when they are read.
        """
        return self._ends.of(_pair(partition), self._known())

    def ended(self, partition: str) -> bool:
        return False

    def identity(self, partition: str, upto: int) -> str:
        """The id of the topic: one that is deleted and made again has another."""
        known = self._topics or self._looked_for()
        return f"topic id {known[_pair(partition)[0]].id} of cluster {self._cluster.id}"

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        pair = _pair(partition)
        for messages in self._fetcher.read(pair, start, stop, self._id(pair[0])):
            yield self._reading.records(messages)

    def close(self) -> None:
        self._cluster.close()

    def _first(self, pair: Pair) -> int:
        return self._firsts.of(pair, self._known())

    def _offsets_of_begin(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """Those of the time that `from` says, else the ends."""
        if isinstance(self._config.begin, AtTime):
            return self._cluster.offsets_at(pairs, self._config.begin.micros, self._config.isolation)
        return self._cluster.ends(pairs, self._config.isolation)

    # Topics

    def _id(self, name: str) -> str | None:
        """The id of a topic as it was seen here, or else by the process that looks for topics."""
        if self._topics is not None:
            return self._topics[name].id if name in self._topics else None
        if name not in self._told:
            self._told = self._ids.read()
        return self._told.get(name)

    def _known(self) -> list[Pair]:
        topics = self._topics or {}
        return [pair for name in sorted(topics) for pair in topics[name].pairs]

    def _looked_for(self) -> Mapping[str, Topic]:
        """The topics as they are now; as they were, if nobody answers."""
        names, now = self._config.names, time.monotonic()
        if self._topics is None:
            self._topics = self._begun(self._matching(self._cluster.topics(names)))
        elif names is not None or now - self._looked >= _LOOK_SECONDS:
            found = self._cluster.topics_briefly(names)
            if found is not None:
                self._compare(self._topics, self._matching(found), now)
                self._topics |= self._matching(found)
        else:
            return self._topics
        if not self._hurry:
            self._ids.write({name: topic.id for name, topic in self._topics.items()})
        self._looked = now
        return self._topics

    def _matching(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        pattern = self._config.pattern
        return {name: topic for name, topic in topics.items() if pattern is None or re.fullmatch(pattern, name)}

    def _begun(self, found: dict[str, Topic]) -> dict[str, Topic]:
        """The topics at the start: made or refused, where they are not there."""
        missing = [name for name in self._config.names or () if name not in found]
        if gone := sorted(self._ids.read().keys() & missing):
            message = (
                f"topic {gone[0]} was read by this run and is not at {self._config.bootstrap} any more: if it was "
                "deleted, start over with --fresh"
            )
            raise Contradiction(message)
        if missing and self._config.create and not self._hurry:
            return found | {name: self._cluster.create(name, self._config.partitions) for name in missing}
        if missing:
            self._refuse(missing[0])
        if not found and not self._hurry:
            _LOGGER.warning("no topic matches %s yet; waiting for one", self._config.pattern)
        begin = self._config.begin
        if self._config.topic is not None and not isinstance(begin, str | AtTime):
            numbers = found[self._config.topic].partitions
            if unknown := sorted(begin.offsets.keys() - numbers):
                message = (
                    f"`from` has an offset for partition {unknown[0]} of {self._config.topic}, "
                    f"whose partitions are 0 to {numbers[-1]}"
                )
                raise Contradiction(message)
        return found

    def _refuse(self, name: str) -> None:
        message = (
            f"there is no topic {name} at {self._config.bootstrap}; `create: true` makes it, and so does "
            f"`millstream log append kafka://{self._config.bootstrap}/{name}`"
            f"{suggestion(name, self._cluster.topics())}"
        )
        raise Contradiction(message)

    def _compare(self, known: Mapping[str, Topic], found: Mapping[str, Topic], now: float) -> None:
        """Refuse topics that are gone, or other ones of the same name."""
        for name, topic in known.items():
            if name not in found:
                if now - self._missing.setdefault(name, now) >= _GONE_SECONDS:
                    message = f"topic {name} was deleted while it was read; start over with --fresh"
                    raise Contradiction(message)
            else:
                self._missing.pop(name, None)
                if found[name].id != topic.id:
                    raise AlteredLog(made_again(name))


def _pair(partition: str) -> Pair:
    topic, _, number = partition.rpartition("/")
    return topic, int(number)

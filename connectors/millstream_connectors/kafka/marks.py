"""Marks in Kafka: which epochs a topic holds, told by a group's offsets and by the rows themselves.

Every message has a header that names the pipeline and the output, the epoch log and the epoch. The transaction that
writes an epoch's rows also writes the group's offset of each partition that got some: where they end, and the mark as
its metadata. Nobody reads with that group.

Offsets can vanish (the brokers drop one that was not written for a week) or be set to something else by hand. So the
rows are looked at too: in each partition from where the group says that our rows end; from the beginning, where it
says nothing, or what somebody else has set. What rows there are counts for more than what the group tells of them. With
both gone there is no mark. A run's first transaction writes the offsets that are missing: the next look is short.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetFetchRequest

from millstream.log.contracts import Mark
from millstream_connectors.kafka.cluster import Cluster, Pair, Topic
from millstream_connectors.kafka.connection import checked
from millstream_connectors.kafka.coordinators import Coordinators
from millstream_connectors.kafka.fetching import Fetcher
from millstream_connectors.kafka.network import Broker
from millstream_connectors.kafka.waiting import Patience

__all__ = ["HEADER", "Look", "Marks", "Signature", "metadata_of"]

HEADER = "millstream"

_LOGGER = logging.getLogger(__name__)

_FIRST_LOOK = 300
_LARGEST_LOOK = 100_000
_GLANCE = 100_000
"""Messages at the end of a topic."""
_WORTH_A_WORD = 1_000_000
"""Messages that it takes seconds to look through."""
_PAUSE = 0.02


@dataclass(frozen=True)
class Signature:
    """Whose rows of a topic are meant: those of one output of one pipeline.

    >>> signature = Signature("news", "topics", "popular")
    >>> signature.header(Mark("some epoch log", 3))
    ('millstream', b'["news/topics","some epoch log",3]')
    >>> signature.mark(b'["news/topics","some epoch log",3]')
    Mark(log='some epoch log', epoch=3)
    >>> signature.mark(b'["news/predictions","some epoch log",3]')
    """

    pipeline: str
    output: str
    topic: str

    @property
    def id(self) -> str:
        """The group and the transactional id: another one for another topic, so that such runs do not meet."""
        return f"millstream.{self.pipeline}.{self.output}.{self.topic}"

    @property
    def name(self) -> str:
        return f"{self.pipeline}/{self.output}"

    def header(self, mark: Mark) -> tuple[str, bytes]:
        """What every message of this epoch carries."""
        return HEADER, self._begin + _compact([mark.log, mark.epoch])[1:]

    def mark(self, header: bytes | None) -> Mark | None:
        """What a message tells of its epoch; None if it is none of ours."""
        if header is None or not header.startswith(self._begin):
            return None
        try:
            _, log, epoch = json.loads(header)
            return Mark(str(log), int(epoch))
        except (ValueError, TypeError):  # somebody else's, however alike
            return None

    def ours(self, headers: Collection[bytes | None]) -> list[bool]:
        """Which messages are ours, by their headers."""
        begin = self._begin
        return [header is not None and header.startswith(begin) for header in headers]

    @property
    def _begin(self) -> bytes:
        return _compact([self.name])[:-1] + b","


def metadata_of(mark: Mark) -> str:
    """A mark as the metadata of a group's offset."""
    return json.dumps({"log": mark.log, "epoch": mark.epoch})


@dataclass(frozen=True)
class _Told:
    """What the group tells of a partition: where our rows end, none of them of an epoch after this mark's."""

    end: int
    mark: Mark


@dataclass(frozen=True)
class Look:
    """What a look has found: the mark, and up to where it went in partitions of which the group says nothing."""

    mark: Mark | None
    untold: Mapping[int, int]


class Marks:
    """Finds the mark of an output's rows, without disturbing whoever writes them."""

    def __init__(
        self, cluster: Cluster, coordinators: Coordinators, signature: Signature, patience: float = 120.0
    ) -> None:
        self._cluster, self._coordinators = cluster, coordinators
        self._signature = signature
        self._fetcher = Fetcher(cluster, "read_committed", skip_removed=True)
        self._without: dict[tuple[str, int], int] = {}  # by topic's id and partition: up to where nothing is ours
        self._patience = Patience(f"the end of topic {signature.topic}", patience)

    def look(self) -> Look:
        """The last epoch that the topic holds rows of, all of them committed; None if there is none.

        A transaction that is being ended is waited for. One of ours that is open does not count: a dead run's will be
        aborted, and a live one's means that we are not to write. One of others may hide rows that the group does not
        tell of, and is waited for.
        """
        topic = self._topic()
        if topic is None:
            return Look(None, {})
        pairs = topic.pairs
        standing = self._coordinators.settle(self._signature.id)
        told = self._told(pairs)
        ends = dict(self._cluster.ends(pairs, "read_committed"))
        untold = [pair for pair in pairs if pair not in told]
        if untold and not (standing is not None and standing.open):
            ends |= self.closed_ends(untold)
        begins = self._cluster.beginnings(pairs)
        floors = {pair: max(begins[pair], self._without.get((topic.id, pair[1]), 0)) for pair in pairs}
        floors |= {pair: max(begins[pair], one.end) for pair, one in told.items()}
        if sum(max(0, ends[pair] - floors[pair]) for pair in pairs) > _WORTH_A_WORD:
            _LOGGER.warning("looking through topic %s for rows of %s", topic.name, self._signature.name)
        found = []
        for pair in pairs:
            last = self._last(pair, floors[pair], ends[pair])
            if last is not None:
                found.append(last)
            elif pair not in told:
                self._without[topic.id, pair[1]] = ends[pair]
        mark = _newest(found, [one.mark for one in told.values()])
        return Look(mark, {pair[1]: ends[pair] for pair in untold})

    def glance(self) -> Mark | None:
        """What the rows at the end of the topic tell, others not being waited for: good enough without a guard."""
        topic = self._topic()
        if topic is None:
            return None
        pairs = topic.pairs
        begins, ends = self._cluster.beginnings(pairs), self._cluster.ends(pairs, "read_committed")
        each = _GLANCE // len(pairs)
        found = [self._last(pair, max(begins[pair], ends[pair] - each), ends[pair]) for pair in pairs]
        return _newest([last for last in found if last is not None], [])

    def closed_ends(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """Where partitions end; transactions that are open now are waited for, as they hide what is behind them."""
        return self._ends_from(self._cluster.ends(pairs, "read_uncommitted"))

    def ends_of_ours(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """Where what can be read ends; transactions of others are waited for that hide rows of ours."""
        standing = self._coordinators.settle(self._signature.id)
        told = self._told(pairs)
        written, ends = self._cluster.ends(pairs, "read_uncommitted"), self._cluster.ends(pairs, "read_committed")
        wanted = {pair: told[pair].end if pair in told else ends[pair] for pair in pairs}
        if not (standing is not None and standing.open):  # what is ours is in no open transaction
            everything = Fetcher(self._cluster, "read_uncommitted", skip_removed=True)
            for pair in pairs:
                if pair not in told and self._last(pair, ends[pair], written[pair], everything) is not None:
                    wanted[pair] = written[pair]
        return self._ends_from(wanted)

    def _topic(self) -> Topic | None:
        return self._cluster.topic(self._signature.topic)

    def _ends_from(self, wanted: Mapping[Pair, int]) -> Mapping[Pair, int]:
        """Where what can be read ends, once it goes as far as is wanted."""
        since = self._patience.now()
        while True:
            ends = self._cluster.ends(wanted, "read_committed")
            if all(ends[pair] >= wanted[pair] for pair in wanted):
                self._patience.over("end")
                return ends
            reason = "a transaction of another producer is open there, and hides what comes behind it"
            self._patience.failed("end", reason, since=since, advice="see that it is committed or aborted")
            time.sleep(_PAUSE)

    def _last(self, pair: Pair, floor: int, end: int, fetcher: Fetcher | None = None) -> tuple[int, Mark] | None:
        """The last message of ours in [floor, end): when it was written, and its mark."""
        step = _FIRST_LOOK
        while end > floor:
            begin = max(floor, end - step)
            last = None
            for records in (fetcher or self._fetcher).read(pair, begin, end):
                headers = records.headers(HEADER.encode())
                for place in range(len(headers) - 1, -1, -1):
                    mark = self._signature.mark(headers[place])
                    if mark is not None:
                        last = (int(records.timestamps[place]), mark)
                        break
            if last is not None:
                return last
            end, step = begin, min(step * 4, _LARGEST_LOOK)
        return None

    def _told(self, pairs: Collection[Pair]) -> Mapping[Pair, _Told]:
        """What the group tells, but for offsets that are not ours, or behind the end: then the rows are lost."""
        group = self._signature.id
        asked = OffsetFetchRequest.OffsetFetchRequestGroup
        topic = asked.OffsetFetchRequestTopics(name=self._signature.topic, partition_indexes=[one for _, one in pairs])

        async def told(broker: Broker) -> Mapping[Pair, _Told]:
            request = OffsetFetchRequest(
                groups=[asked(group_id=group, topics=[topic])], require_stable=False, min_version=8, max_version=9
            )
            answer = (await self._coordinators.of_group(broker, group, request)).groups[0]
            if answer.error_code == kafka_errors.GroupIdNotFoundError.errno:
                return {}
            checked(answer.error_code, f"group {group}")
            found = {}
            for one in answer.topics:
                for partition in one.partitions:
                    checked(partition.error_code, f"group {group}")
                    mark = _mark_in(partition.metadata)
                    if partition.committed_offset >= 0 and mark is not None:
                        found[one.name, partition.partition_index] = _Told(partition.committed_offset, mark)
            return found

        found = self._cluster.ask("group", told)
        written = self._cluster.ends(found, "read_uncommitted") if found else {}
        return {pair: one for pair, one in found.items() if one.end <= written[pair]}


def _newest(found: Collection[tuple[int, Mark]], told: Collection[Mark]) -> Mark | None:
    """The greatest epoch of the log whose rows are the newest."""
    if not found and not told:
        return None
    log = max(found, key=lambda one: one[0])[1].log if found else next(iter(told)).log
    epochs = [mark.epoch for mark in (*told, *(mark for _, mark in found)) if mark.log == log]
    return Mark(log, max(epochs))


def _mark_in(metadata: str | None) -> Mark | None:
    """The mark in a group's offset; None if somebody else has written it."""
    try:
        found = json.loads(metadata or "")
        return Mark(str(found["log"]), int(found["epoch"]))
    except (ValueError, TypeError, KeyError):
        return None


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

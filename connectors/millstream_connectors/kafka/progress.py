"""The progress of a Kafka sink, the last epoch and the sums of a topic's rows: in a group's offsets and in the rows.

Every message has a header with the names of the pipeline and the output, and with the progress after its append: the
epoch log, the epoch, and the sums of all rows. The transaction that writes an epoch's rows also commits the offset of a
consumer group after these rows, for each partition that gets any, and the progress is the offset's metadata. No
consumer reads with this group.

Offsets may expire (the brokers delete offsets that were not written for a week), or be changed by hand. So the rows are
scanned too: each partition from the group's offset, or from its beginning if there is no offset or not one of ours. If
the rows and the group disagree, the rows win. If both are gone, the topic has no progress. A run's first transaction
writes the missing offsets, so that the next scan is short.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from millstream.log.contracts import Progress
from millstream_connectors.kafka.client.cluster import Cluster, Pair, Topic
from millstream_connectors.kafka.client.coordinators import KafkaCoordinators
from millstream_connectors.kafka.client.fetcher import Fetcher
from millstream_connectors.kafka.client.retries import RetryTimer

__all__ = ["HEADER", "ProgressReader", "Signature", "metadata_of"]

HEADER = "millstream"

_LOGGER = logging.getLogger(__name__)

_FIRST_SCAN, _LARGEST_SCAN = 300, 100_000
"""Messages that are read at once, backwards from the end: few at first, then four times as many each time."""
_RECENT = 100_000
"""Messages at the end of a topic that are scanned without a guard."""
_LOGGED_SCAN = 1_000_000
"""A scan of so many messages takes seconds, and is logged."""
_PAUSE = 0.02


@dataclass(frozen=True)
class Signature:
    """The name by which one output of one pipeline recognizes its rows in a topic.

    >>> signature = Signature("news", "topics", "popular")
    >>> signature.header(Progress("some epoch log", 3))
    ('millstream', b'["news/topics","some epoch log",3,0,0,"0-00000000000000000000000000000000"]')
    >>> signature.progress_in(b'["news/topics","some epoch log",3,0,7,"7-00000000000000000000000000000000"]').rows
    7
    >>> signature.progress_in(b'["news/predictions","some epoch log",3,0,7,"7-00000000000000000000000000000000"]')
    """

    pipeline: str
    output: str
    topic: str

    @property
    def id(self) -> str:
        """The group and the transactional id; it contains the topic, so that runs with other topics are separate."""
        return f"millstream.{self.pipeline}.{self.output}.{self.topic}"

    @property
    def name(self) -> str:
        return f"{self.pipeline}/{self.output}"

    def header(self, progress: Progress) -> tuple[str, bytes]:
        """The header of every message of an append."""
        return HEADER, self._prefix + _compact(list(progress.line().values()))[1:]

    def progress_in(self, header: bytes | None) -> Progress | None:
        """The progress of a message's append, from its header; None if the message is not of this output."""
        if header is None or not header.startswith(self._prefix):
            return None
        try:
            _, log, epoch, term, rows, digest = json.loads(header)
            return Progress(str(log), int(epoch), int(term), int(rows), str(digest))
        except (ValueError, TypeError):  # a similar header of another program
            return None

    def matches(self, headers: Collection[bytes | None]) -> list[bool]:
        """For each message whether it is of this output, by its header."""
        prefix = self._prefix
        return [header is not None and header.startswith(prefix) for header in headers]

    @property
    def _prefix(self) -> bytes:
        return _compact([self.name])[:-1] + b","


def metadata_of(progress: Progress) -> str:
    """The progress as the metadata of a group's offset."""
    return json.dumps(progress.line())


@dataclass(frozen=True)
class _GroupOffset:
    """The group's offset of a partition: the end of our rows, none of which is of a later epoch than `progress`."""

    end: int
    progress: Progress


@dataclass(frozen=True)
class _FoundProgress:
    """The progress of a topic, and the ends of the scanned partitions for which the group has no offset."""

    progress: Progress | None
    missing_offsets: Mapping[int, int]


class ProgressReader:
    """Finds the progress of an output, without disturbing the run that writes it."""

    def __init__(self, cluster: Cluster, coordinators: KafkaCoordinators, signature: Signature, timeout: float) -> None:
        self._cluster, self._coordinators = cluster, coordinators
        self._signature = signature
        self._fetcher = Fetcher(cluster, "read_committed", skip_removed=True)
        self._scanned: dict[tuple[str, int], int] = {}  # by topic id and partition: the end of a range without our rows
        self._timer = RetryTimer(f"topic {signature.topic}", timeout)

    def find(self) -> _FoundProgress:
        """The progress of the last append of which the topic has committed rows.

        A transaction that is being committed or aborted is waited for. An open transaction of this output does not
        count: a dead run's will be aborted, and a live run's means that this run must not write. An open transaction of
        another producer may hide rows for which the group has no offset, and is waited for.
        """
        topic = self._topic()
        if topic is None:
            return _FoundProgress(None, {})
        pairs = topic.pairs
        transaction = self._coordinators.wait_until_complete(self._signature.id)
        group = self._group_offsets(pairs)
        ends = dict(self._cluster.ends(pairs, "read_committed"))
        missing = [pair for pair in pairs if pair not in group]
        if missing and not (transaction is not None and transaction.open):
            ends |= self.closed_ends(missing)
        begins = self._cluster.beginnings(pairs)
        starts = {pair: max(begins[pair], self._scanned.get((topic.id, pair[1]), 0)) for pair in pairs}
        starts |= {pair: max(begins[pair], offset.end) for pair, offset in group.items()}
        if sum(max(0, ends[pair] - starts[pair]) for pair in pairs) > _LOGGED_SCAN:
            _LOGGER.warning("scanning topic %s for rows of %s", topic.name, self._signature.name)
        found = []
        for pair in pairs:
            last = self._last(pair, starts[pair], ends[pair])
            if last is not None:
                found.append(last)
            elif pair not in group:
                self._scanned[topic.id, pair[1]] = ends[pair]
        progress = _newest(found, [offset.progress for offset in group.values()])
        return _FoundProgress(progress, {pair[1]: ends[pair] for pair in missing})

    def find_recent(self) -> Progress | None:
        """The progress in the last rows of the topic, without waiting for transactions; for use without a guard."""
        topic = self._topic()
        if topic is None:
            return None
        pairs = topic.pairs
        begins, ends = self._cluster.beginnings(pairs), self._cluster.ends(pairs, "read_committed")
        each = _RECENT // len(pairs)
        found = [self._last(pair, max(begins[pair], ends[pair] - each), ends[pair]) for pair in pairs]
        return _newest([last for last in found if last is not None], [])

    def closed_ends(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """The ends of partitions, once the now open transactions, which hide later messages, have ended."""
        return self._wait_for_ends(self._cluster.ends(pairs, "read_uncommitted"))

    def ends_of_own_rows(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """The ends of the readable messages, once no transaction of another producer hides rows of this output."""
        transaction = self._coordinators.wait_until_complete(self._signature.id)
        group = self._group_offsets(pairs)
        written, ends = self._cluster.ends(pairs, "read_uncommitted"), self._cluster.ends(pairs, "read_committed")
        wanted = {pair: group[pair].end if pair in group else ends[pair] for pair in pairs}
        if not (transaction is not None and transaction.open):  # no row of ours is in an open transaction
            uncommitted = Fetcher(self._cluster, "read_uncommitted", skip_removed=True)
            for pair in pairs:
                if pair not in group and self._last(pair, ends[pair], written[pair], uncommitted) is not None:
                    wanted[pair] = written[pair]
        return self._wait_for_ends(wanted)

    def _topic(self) -> Topic | None:
        return self._cluster.topic(self._signature.topic)

    def _wait_for_ends(self, wanted: Mapping[Pair, int]) -> Mapping[Pair, int]:
        """The ends of the readable messages, once they are not before the wanted ones."""
        since = self._timer.now()
        while True:
            ends = self._cluster.ends(wanted, "read_committed")
            if all(ends[pair] >= wanted[pair] for pair in wanted):
                self._timer.succeeded("end")
                return ends
            reason = "an open transaction of another producer hides later messages; see that it is committed or aborted"
            self._timer.failed("end", reason, since=since)
            time.sleep(_PAUSE)

    def _last(self, pair: Pair, start: int, end: int, fetcher: Fetcher | None = None) -> tuple[int, Progress] | None:
        """The timestamp and the progress of our last message in [start, end)."""
        step = _FIRST_SCAN
        while end > start:
            begin = max(start, end - step)
            last = None
            for records in (fetcher or self._fetcher).read(pair, begin, end):
                headers = records.headers(HEADER.encode())
                for index in range(len(headers) - 1, -1, -1):
                    progress = self._signature.progress_in(headers[index])
                    if progress is not None:
                        last = (int(records.timestamps[index]), progress)
                        break
            if last is not None:
                return last
            end, step = begin, min(step * 4, _LARGEST_SCAN)
        return None

    def _group_offsets(self, pairs: Collection[Pair]) -> Mapping[Pair, _GroupOffset]:
        """The group's offsets, except offsets of others, and offsets after the end: then the rows are lost."""
        found = {}
        for pair, (end, metadata) in self._coordinators.group_offsets(self._signature.id, pairs).items():
            progress = _parse_metadata(metadata)
            if progress is not None:
                found[pair] = _GroupOffset(end, progress)
        written = self._cluster.ends(found, "read_uncommitted") if found else {}
        return {pair: offset for pair, offset in found.items() if offset.end <= written[pair]}


def _newest(found: Collection[tuple[int, Progress]], group: Collection[Progress]) -> Progress | None:
    """The progress of the last append of the epoch log that has the newest rows."""
    if not found and not group:
        return None
    log = max(found, key=lambda last: last[0])[1].log if found else next(iter(group)).log
    own = [progress for progress in (*group, *(last[1] for last in found)) if progress.log == log]
    return max(own, key=lambda progress: (progress.rows, progress.epoch))


def _parse_metadata(metadata: str | None) -> Progress | None:
    """The progress in the metadata of a group's offset; None if another program has written it."""
    try:
        found = json.loads(metadata or "")
        return Progress.from_line(found)
    except (ValueError, TypeError, KeyError):
        return None


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

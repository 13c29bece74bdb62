"""Reads ranges of offsets of partitions: committed messages, with whatever gaps there are between their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka import errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from millstream_connectors.kafka.client.batches import Records, Scan, scan
from millstream_connectors.kafka.client.cluster import Cluster, Isolation, Pair, partition_name
from millstream_connectors.kafka.client.connection import check_code
from millstream_connectors.kafka.client.errors import InvalidData, MessagesLost, OffsetRemoved, TopicRecreated
from millstream_connectors.kafka.client.network import Nodes

__all__ = ["Fetcher"]

_MIN_FETCH_BYTES, _MAX_FETCH_BYTES = 16 << 10, 1 << 20
"""The size of an answer, unless one batch is larger: small for few records, and small enough for a CPU cache."""
_FIRST_ESTIMATE = (512.0, 16 << 10)
"""The bytes of a record and of a batch, before any was read."""
_WAIT_MILLIS = 500
"""The broker's wait for messages in the request after an empty answer. The first request does not wait, because the
messages of a requested range already exist."""
_OUT_OF_RANGE = kafka_errors.OffsetOutOfRangeError.errno


@dataclass(frozen=True)
class _Answer:
    """The batches of an answer, the aborted transactions among them, and the end of the readable messages."""

    batches: bytes
    aborted: list[tuple[int, int]]
    end: int


class Fetcher:
    """Reads messages of a cluster; it skips removed messages if `skip_removed`, else raises `OffsetRemoved`."""

    def __init__(self, cluster: Cluster, isolation: Isolation, *, skip_removed: bool = False) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._skip_removed = skip_removed
        self._ids: dict[str, str] = {}
        self._sizes: dict[Pair, tuple[float, int]] = {}

    def read(self, pair: Pair, start: int, stop: int, topic_id: str | None = None) -> Iterator[Records]:
        """The records in [start, stop), some at a time; there may be fewer records than offsets, or none.

        The topic must have the id `topic_id`; without one, it must keep the id that it has at the first read.
        """
        if topic_id is not None:
            self._ids.setdefault(pair[0], topic_id)
        position = start
        while position < stop:
            answer = self._ask(pair, position, stop)
            if answer is not None and not answer.batches:  # the broker may need time
                answer = self._ask(pair, position, stop, wait=_WAIT_MILLIS)
            if answer is None:
                position = self._first_remaining(pair, position, stop)
            elif not answer.batches:  # compaction has removed all remaining records, and their batches
                return
            else:
                found = self._scan(pair, answer, position, stop)
                if found.position <= position:
                    raise InvalidData(
                        position, f"{partition_name(pair)} offset {position:,}: the batches are incomplete"
                    )
                self._sizes[pair] = (found.record_bytes, found.batch_bytes)
                position = found.position
                if len(found.records):
                    yield found.records

    def _ask(self, pair: Pair, position: int, stop: int, wait: int = 0) -> _Answer | None:
        record, batch = self._sizes.get(pair, _FIRST_ESTIMATE)
        wanted = (stop - position) * record + 2 * batch  # the broker sends the first and the last batch whole
        size = int(min(max(wanted, _MIN_FETCH_BYTES), _MAX_FETCH_BYTES))
        name = partition_name(pair)
        return self._cluster.ask(name, lambda nodes: self._fetch(nodes, pair, position, stop, size, wait))

    def _scan(self, pair: Pair, answer: _Answer, position: int, stop: int) -> Scan:
        try:
            return scan(answer.batches, answer.aborted, position, stop)
        except InvalidData as error:
            message = f"{partition_name(pair)} offset {error.offset:,} cannot be read: {error}"
            raise InvalidData(error.offset, message) from None

    def _first_remaining(self, pair: Pair, position: int, stop: int) -> int:
        """The offset to continue from, because the partition has nothing at this position."""
        name = partition_name(pair)
        first = self._cluster.beginnings([pair])[pair]
        if position >= first:
            end = self._cluster.ends([pair], "read_uncommitted")[pair]
            message = f"{name} ends at offset {end:,} and has lost messages: it had offset {stop - 1:,} before"
            raise MessagesLost(message)
        if not self._skip_removed:
            raise OffsetRemoved(name, position, first)
        return first

    async def _fetch(self, nodes: Nodes, pair: Pair, position: int, stop: int, size: int, wait: int) -> _Answer | None:
        """The answer to one request; None if the partition has nothing at this position."""
        topic, node = await self._cluster.leader(nodes, pair)
        if self._ids.setdefault(topic.name, topic.id) != topic.id:
            raise TopicRecreated(topic.name)
        asked = FetchRequest.FetchTopic
        partition = asked.FetchPartition(partition=pair[1], fetch_offset=position, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=wait,
            min_bytes=1,
            max_bytes=size,
            isolation_level=1 if self._isolation == "read_committed" else 0,
            topics=[asked(topic=topic.name, topic_id=topic.uuid, partitions=[partition])],
        )
        answer = await nodes.send(request, node)
        check_code(answer.error_code, partition_name(pair))
        if not answer.responses:
            raise kafka_errors.ThrottlingQuotaExceededError(partition_name(pair))
        [[found]] = [one.partitions for one in answer.responses]
        if found.error_code == _OUT_OF_RANGE:
            return None
        if found.error_code:
            self._cluster.forget_leader(pair)
        check_code(found.error_code, partition_name(pair))
        end = found.last_stable_offset if self._isolation == "read_committed" else found.high_watermark
        if not found.records and end < stop:  # a restarted broker may need a moment to find its end again
            message = f"{partition_name(pair)} ends at {end:,}, before the end of the requested range {stop:,}"
            raise kafka_errors.OffsetNotAvailableError(message)
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        return _Answer(found.records or b"", aborted, end)

"""Reads ranges of partitions, by position: what is committed, whatever gaps there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka import errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from millstream.errors import AlteredLog, MillstreamError, Truncated
from millstream_connectors.kafka.batches import Broken, Records, Scan, scan
from millstream_connectors.kafka.cluster import Cluster, Isolation, Pair, named
from millstream_connectors.kafka.connection import checked
from millstream_connectors.kafka.network import Broker

__all__ = ["Fetcher", "made_again", "removed"]

_LEAST_BYTES, _MOST_BYTES = 16 << 10, 1 << 20
"""Of an answer, unless one batch is larger: few for few records, and no more than stays in a processor's cache."""
_USUAL_BYTES = (512.0, 16 << 10)
"""A record and a batch, before any was seen."""
_WAIT_MILLIS = 500
"""For an answer that was empty: at first none is waited for, because what is asked for is there."""
_OUT_OF_RANGE = kafka_errors.OffsetOutOfRangeError.errno


@dataclass(frozen=True)
class _Answer:
    """Batches, the transactions among them that were aborted, and where what can be read ends."""

    batches: bytes
    aborted: list[tuple[int, int]]
    end: int


class Fetcher:
    """Reads from a cluster; `skip_removed`: what has been removed since is left out, else it is `Truncated`."""

    def __init__(self, cluster: Cluster, isolation: Isolation, *, skip_removed: bool = False) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._skip_removed = skip_removed
        self._ids: dict[str, str] = {}
        self._sizes: dict[Pair, tuple[float, int]] = {}

    def read(self, pair: Pair, start: int, stop: int, topic_id: str | None = None) -> Iterator[Records]:
        """The records at [start, stop), some at a time; there may be fewer than offsets, or none.

        The topic is to have this id, if that is known; else the one that it has now, from then on.
        """
        if topic_id is not None:
            self._ids.setdefault(pair[0], topic_id)
        position = start
        while position < stop:
            answer = self._ask(pair, position, stop)
            if answer is not None and not answer.batches:  # perhaps only not yet
                answer = self._ask(pair, position, stop, wait=_WAIT_MILLIS)
            if answer is None:
                position = self._first_left(pair, position, stop)
            elif not answer.batches:  # the rest has been compacted away, and its batches with it
                return
            else:
                found = self._scan(pair, answer, position, stop)
                if found.position <= position:
                    message = f"{named(pair)} offset {position:,}: the broker sends batches that are not whole"
                    raise MillstreamError(message)
                self._sizes[pair] = (found.record_bytes, found.batch_bytes)
                position = found.position
                if len(found.records):
                    yield found.records

    def _ask(self, pair: Pair, position: int, stop: int, wait: int = 0) -> _Answer | None:
        record, batch = self._sizes.get(pair, _USUAL_BYTES)
        wanted = (stop - position) * record + 2 * batch  # the first and the last are read whole
        size = int(min(max(wanted, _LEAST_BYTES), _MOST_BYTES))
        return self._cluster.ask(named(pair), lambda broker: self._fetch(broker, pair, position, stop, size, wait))

    def _scan(self, pair: Pair, answer: _Answer, position: int, stop: int) -> Scan:
        try:
            return scan(answer.batches, answer.aborted, position, stop)
        except Broken as error:
            message = f"{named(pair)} offset {error.offset:,} cannot be read: {error}"
            raise MillstreamError(message) from None

    def _first_left(self, pair: Pair, position: int, stop: int) -> int:
        """Where to go on, because nothing is at this position."""
        begin = self._cluster.beginnings([pair])[pair]
        if position >= begin:
            end = self._cluster.ends([pair], "read_uncommitted")[pair]
            message = f"{named(pair)} ends at offset {end:,}, and {stop - 1:,} was there before: it has lost messages"
            raise AlteredLog(message)
        if not self._skip_removed:
            raise Truncated(removed(pair, position, begin))
        return begin

    async def _fetch(
        self, broker: Broker, pair: Pair, position: int, stop: int, size: int, wait: int
    ) -> _Answer | None:
        """What one request gives; None if nothing is at this position."""
        topic, node = await self._cluster.leader(broker, pair)
        if self._ids.setdefault(topic.name, topic.id) != topic.id:
            raise AlteredLog(made_again(topic.name))
        asked = FetchRequest.FetchTopic
        partition = asked.FetchPartition(partition=pair[1], fetch_offset=position, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=wait,
            min_bytes=1,
            max_bytes=size,
            isolation_level=1 if self._isolation == "read_committed" else 0,
            topics=[asked(topic=topic.name, topic_id=topic.uuid, partitions=[partition])],
        )
        answer = await broker.send(request, node)
        checked(answer.error_code, named(pair))
        if not answer.responses:
            raise kafka_errors.ThrottlingQuotaExceededError(named(pair))
        [[found]] = [one.partitions for one in answer.responses]
        if found.error_code == _OUT_OF_RANGE:
            return None
        if found.error_code:
            self._cluster.moved(pair)
        checked(found.error_code, named(pair))
        end = found.last_stable_offset if self._isolation == "read_committed" else found.high_watermark
        if not found.records and end < stop:  # after a restart a broker may need a moment to know how far it is
            message = f"{named(pair)} ends at {end:,} now, and is to be read up to {stop:,}"
            raise kafka_errors.OffsetNotAvailableError(message)
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        return _Answer(found.records or b"", aborted, end)


def made_again(topic: str) -> str:
    """What to say of another topic of the same name."""
    return f"topic {topic} was deleted and made again while it was read; start over with --fresh"


def removed(pair: Pair, wanted: int, first: int) -> str:
    """What to say of messages that are wanted and gone."""
    return (
        f"{named(pair)}: offset {wanted:,} is wanted, and what is left begins at {first:,}: retention has removed the "
        "rest; start over with --fresh, or go on without it with `on_truncated: earliest`"
    )

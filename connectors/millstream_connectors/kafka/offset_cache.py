"""First and last offsets of partitions, requested for all partitions together and cached for some milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from millstream_connectors.kafka.client.cluster import Pair

__all__ = ["EndOffsetCache", "OffsetCache"]

_MAX_AGE_SECONDS = 0.01
"""The age up to which an answer is used: the engine asks for each partition, every few milliseconds."""
_RETRY_SECONDS = 0.05
"""The pause before the next request while the brokers are unavailable."""
_DURATION_FACTOR = 4
"""An answer is used at least so many times as long as the request took, as it may for thousands of partitions."""

_Request = Callable[[Collection[Pair]], Mapping[Pair, int]]


class OffsetCache:
    """Offsets of partitions, such as their first offsets: a request for one partition fetches those of all.

    >>> def request(pairs):
    ...     return {pair: 7 for pair in pairs}
    >>> OffsetCache(request).get(("news", 0), among=[("news", 1)])
    7
    """

    def __init__(self, request: _Request, clock: Callable[[], float] = time.monotonic) -> None:
        self._request, self._clock = request, clock
        self._offsets: Mapping[Pair, int] = {}
        self._expires = 0.0

    def get(self, pair: Pair, among: Collection[Pair]) -> int:
        """The offset of one partition; `among` are the partitions that are fetched with it."""
        started = self._clock()
        if pair not in self._offsets or started >= self._expires:
            self._offsets = self._request({*among, pair})
            self._expires = _expiry(started, self._clock(), _MAX_AGE_SECONDS)
        return self._offsets[pair]


class EndOffsetCache:
    """The end offsets of partitions. They never decrease, although a restarted broker may report lower ones at first.

    The first offset is waited for (`request`); a later request (`request_briefly`) may return None, and the cached
    offsets stay.

    >>> cache = EndOffsetCache(lambda pairs: {("news", 0): 7}, lambda pairs: None)
    >>> cache.get(("news", 0), among=[]), cache.is_current
    (7, True)
    """

    is_current: bool = False
    """True if the last request had an answer; false while the brokers are unavailable."""

    def __init__(
        self,
        request: _Request,
        request_briefly: Callable[[Collection[Pair]], Mapping[Pair, int] | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request, self._request_briefly, self._clock = request, request_briefly, clock
        self._offsets: dict[Pair, int] = {}
        self._expires = 0.0

    def get(self, pair: Pair, among: Collection[Pair]) -> int:
        """The end offset of one partition; `among` are the partitions that are fetched with it."""
        started = self._clock()
        if pair not in self._offsets:
            self._update(self._request({*among, pair}), started)
        elif started >= self._expires:
            self._update(self._request_briefly(list(self._offsets)), started)
        return self._offsets[pair]

    def _update(self, found: Mapping[Pair, int] | None, started: float) -> None:
        for pair, end in (found or {}).items():
            self._offsets[pair] = max(end, self._offsets.get(pair, end))
        self.is_current = found is not None
        self._expires = _expiry(started, self._clock(), _RETRY_SECONDS if found is None else _MAX_AGE_SECONDS)


def _expiry(started: float, now: float, min_age: float) -> float:
    return now + max(min_age, _DURATION_FACTOR * (now - started))

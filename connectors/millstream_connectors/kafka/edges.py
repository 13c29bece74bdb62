"""Where partitions begin and end, asked for all of them at once and remembered for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from millstream_connectors.kafka.cluster import Pair

__all__ = ["Edges", "Ends"]

_RECENT_SECONDS = 0.01
"""How old an answer may be: the engine asks for each partition, every few milliseconds."""
_AWAY_SECONDS = 0.05
"""The same, while the brokers are away."""
_SHARE = 4
"""How much longer than the asking takes, where there are thousands of partitions."""

_Ask = Callable[[Collection[Pair]], Mapping[Pair, int]]


class Edges:
    """Offsets of partitions, such as their beginnings: who asks for one soon asks for the others.

    >>> def ask(pairs):
    ...     return {pair: 7 for pair in pairs}
    >>> Edges(ask).of(("news", 0), among=[("news", 1)])
    7
    """

    def __init__(self, ask: _Ask) -> None:
        self._ask = ask
        self._found: Mapping[Pair, int] = {}
        self._due = 0.0

    def of(self, pair: Pair, among: Collection[Pair]) -> int:
        """That of one partition; `among` are those that may be asked for next."""
        asked = time.monotonic()
        if pair not in self._found or asked >= self._due:
            self._found = self._ask({*among, pair})
            self._due = _due(asked, _RECENT_SECONDS)
        return self._found[pair]


class Ends:
    """The ends of partitions, which only grow: a broker that has just been started may tell older ones for a moment.

    The first answer is waited for (`ask`); later ones (`ask_briefly`) may be None, and what was known stays so.
    """

    def __init__(self, ask: _Ask, ask_briefly: Callable[[Collection[Pair]], Mapping[Pair, int] | None]) -> None:
        self._ask, self._ask_briefly = ask, ask_briefly
        self._found: dict[Pair, int] = {}
        self._due = 0.0

    def of(self, pair: Pair, among: Collection[Pair]) -> int:
        """That of one partition; `among` are those that may be asked for next."""
        asked = time.monotonic()
        if pair not in self._found:
            self._take(self._ask({*among, pair}), asked)
        elif asked >= self._due:
            self._take(self._ask_briefly(list(self._found)), asked)
        return self._found[pair]

    def _take(self, found: Mapping[Pair, int] | None, asked: float) -> None:
        for pair, end in (found or {}).items():
            self._found[pair] = max(end, self._found.get(pair, end))
        self._due = _due(asked, _AWAY_SECONDS if found is None else _RECENT_SECONDS)


def _due(asked: float, least: float) -> float:
    now = time.monotonic()
    return now + max(least, _SHARE * (now - asked))

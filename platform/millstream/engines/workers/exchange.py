"""The exchange before a leg: it holds the parts of epochs until the leg may run.

Parts may arrive in any order, and between parts of other epochs and phases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from millstream.engines.workers.messages import Allow

__all__ = ["Exchange"]

_Part = TypeVar("_Part")


class Exchange(Generic[_Part]):
    """Holds the parts of each phase of an epoch until all have arrived, and the epoch is next and may change state.

    `parts` has the number of parts in each phase. A phase follows the phase before it, and the first one of an epoch
    the last one of the epoch before.

    >>> exchange = Exchange[str](parts=[2, 1])
    >>> exchange.allow(Allow(5, 7))
    >>> for epoch, phase in ((6, 0), (5, 1), (5, 0)):
    ...     exchange.take(epoch, phase, f"part of {epoch}, {phase}")
    >>> exchange.ready() is None
    True
    >>> exchange.take(5, 0, "other part of 5, 0")
    >>> exchange.ready(), exchange.ready(), exchange.ready()
    ((5, 0, ['part of 5, 0', 'other part of 5, 0']), (5, 1, ['part of 5, 1']), None)
    """

    def __init__(self, parts: Sequence[int]) -> None:
        self._parts = parts
        self._held: dict[tuple[int, int], list[_Part]] = {}
        self._allowed: deque[int] = deque()
        self._phase = 0

    @property
    def idle(self) -> bool:
        """True if the leg has run all epochs that are allowed."""
        return not self._allowed

    def allow(self, message: Allow) -> None:
        """Allow these epochs to change state; they follow the epochs allowed before."""
        assert not self._allowed or message.start == self._allowed[-1] + 1, (self._allowed, message)
        self._allowed.extend(range(message.start, message.stop))

    def take(self, epoch: int, phase: int, part: _Part) -> None:
        held = self._held.setdefault((epoch, phase), [])
        held.append(part)
        assert len(held) <= self._parts[phase], f"phase {phase} of epoch {epoch} has {len(held)} of {self._parts} parts"

    def ready(self) -> tuple[int, int, list[_Part]] | None:
        """Return the next epoch and phase with all parts, each only once; None if not allowed or not complete."""
        if not self._allowed:
            return None
        epoch, phase = self._allowed[0], self._phase
        if len(self._held.get((epoch, phase), ())) < self._parts[phase]:
            return None
        self._phase = (phase + 1) % len(self._parts)
        if not self._phase:
            self._allowed.popleft()
        return epoch, phase, self._held.pop((epoch, phase), [])

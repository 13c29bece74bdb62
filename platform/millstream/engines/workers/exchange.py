"""The exchange before a leg: it holds the parts of epochs until the leg may run.

Parts may arrive in any order, and between parts of other epochs and phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from millstream.engines.workers.allowed_epochs import AllowedEpochs

__all__ = ["Exchange"]

_Part = TypeVar("_Part")


class Exchange(Generic[_Part]):
    """Holds the parts of each phase of an epoch until all have arrived, and the epoch is next and may change state.

    `parts` has the number of parts in each phase. A phase follows the phase before it, and the first one of an epoch
    the last one of the epoch before.

    >>> from millstream.engines.workers.messages import Allow
    >>> exchange = Exchange[str](parts=[2, 1])
    >>> exchange.allowed.allow(Allow(5, 7))
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
        self.allowed = AllowedEpochs()
        self._phase = 0

    def take(self, epoch: int, phase: int, part: _Part) -> None:
        held = self._held.setdefault((epoch, phase), [])
        held.append(part)
        assert len(held) <= self._parts[phase], f"phase {phase} of epoch {epoch} has {len(held)} of {self._parts} parts"

    def ready(self) -> tuple[int, int, list[_Part]] | None:
        """Return the next epoch and phase with all parts, each only once; None if not allowed or not complete."""
        epoch, phase = self.allowed.first, self._phase
        if epoch is None or len(self._held.get((epoch, phase), ())) < self._parts[phase]:
            return None
        self._phase = (phase + 1) % len(self._parts)
        if not self._phase:
            self.allowed.pop()
        return epoch, phase, self._held.pop((epoch, phase), [])

"""The exchange before a leg of a cycle: it holds the parts of each round of an epoch until the leg may run."""

from __future__ import annotations

from millstream.engines.workers.allowed_epochs import AllowedEpochs
from millstream.engines.workers.messages import Boundary, EpochPart, Round

__all__ = ["RoundExchange"]

Part = EpochPart | Boundary


class RoundExchange:
    """Holds parts until the next round may run, then until the cycle is over, then those of the boundary.

    `entering` has the number of parts that come from outside of the cycle, `inside` of those that come from earlier
    legs in every round, `back` of those that come over back edges, from the second round on. `at_end` is the number of
    parts at the boundary; 0 if nothing happens there.
    """

    def __init__(self, entering: int, inside: int, back: int, at_end: int) -> None:
        self._entering, self._inside, self._back, self._at_end = entering, inside, back, at_end
        self._held: dict[tuple[int, str, int], list[Part]] = {}
        self._decided: dict[tuple[int, int], bool] = {}
        self.allowed = AllowedEpochs()
        self._round = 0
        self._ending = False

    def take(self, epoch: int, slot: str, part: Part, number: int = 0) -> None:
        """Take a part: `inside` or `back` of a round, `entering`, or `end`."""
        self._held.setdefault((epoch, slot, number), []).append(part)

    def decide(self, message: Round) -> None:
        """Take the decision that a round begins, or that the cycle is over."""
        self._decided[message.epoch, message.round] = message.over

    def ready(self) -> tuple[int, int | None, list[Part]] | None:
        """The next epoch and round with all of its parts, each only once; None if something is missing.

        The round is None for what follows the cycle: first without parts, at the boundary with them.
        """
        epoch = self.allowed.first
        if epoch is None:
            return None
        if self._ending:
            return self._end(epoch) if self._complete(epoch, end=(self._at_end, 0)) else None
        over = self._decided.get((epoch, self._round), False if self._round == 0 else None)
        if over is None:
            return None
        number, back = self._round, 0 if self._round == 0 else self._back
        if over:
            if not self._complete(epoch, back=(back, number)):
                return None
            self._pop(epoch, back=number)
            self._decided = {key: each for key, each in self._decided.items() if key[0] != epoch}
            self._ending = self._at_end > 0
            return (epoch, None, []) if self._ending else (self._next(), None, [])
        entering = self._entering if number == 0 else 0
        if not self._complete(epoch, entering=(entering, 0), inside=(self._inside, number), back=(back, number)):
            return None
        self._round += 1
        first = {"entering": 0} if number == 0 else {}
        return epoch, number, self._pop(epoch, **first, inside=number, back=number)

    def _end(self, epoch: int) -> tuple[int, None, list[Part]]:
        self._ending = False
        return self._next(), None, self._pop(epoch, end=0)

    def _next(self) -> int:
        self._round = 0
        return self.allowed.pop()

    def _complete(self, epoch: int, **wanted: tuple[int, int]) -> bool:
        for slot, (parts, number) in wanted.items():
            held = len(self._held.get((epoch, slot, number), ()))
            assert held <= parts, f"epoch {epoch} has {held} of {parts} parts of {slot} {number}"
            if held < parts:
                return False
        return True

    def _pop(self, epoch: int, **slots: int) -> list[Part]:
        return [part for slot, number in slots.items() for part in self._held.pop((epoch, slot, number), ())]

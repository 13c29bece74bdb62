"""Who dies when, or is asked to end: a plan of blows, each so many moments after the one before."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Died", "Fault", "FaultPlan", "Killed", "Target", "blows"]

_SOON = 15
"""Moments after a blow in which the next one meets whoever recovers."""


class Target(StrEnum):
    """Who is struck: a worker, which is killed or stopped; the coordinator, or with the power everybody.

    Or nobody: the run is asked to end, as by Ctrl-C.
    """

    WORKER = "worker"
    STOPPED = "worker stopped"
    COORDINATOR = "coordinator"
    POWER = "power"
    NOBODY = "asked to end"


_WEIGHTS = {Target.WORKER: 4, Target.STOPPED: 1, Target.COORDINATOR: 4, Target.POWER: 3, Target.NOBODY: 1}


class Died(BaseException):
    """The coordinator, right here, and with it its workers."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.target = target


class Killed(BaseException):
    """A worker, in the midst of what it was at."""


@dataclass(frozen=True)
class Fault:
    """Strikes after so many moments, or after so many before or after an effect: a write that outlives a process."""

    target: Target
    after: int
    of_effects: bool


class FaultPlan:
    """Counts moments, and says who is struck at one.

    >>> plan = FaultPlan([Fault(Target.WORKER, 2, of_effects=False)])
    >>> plan.step(), plan.step(), plan.step()
    (None, <Target.WORKER: 'worker'>, None)
    """

    def __init__(self, blows: Iterable[Fault] = ()) -> None:
        self.struck: Counter[Target] = Counter()
        self._blows = deque(blows)
        self._passed = 0

    def step(self, effect: bool = False) -> Target | None:
        """Who is struck now, if anybody; `effect` if an effect is just about to happen, or just has."""
        if not self._blows or (self._blows[0].of_effects and not effect):
            return None
        self._passed += 1
        if self._passed < self._blows[0].after:
            return None
        self._passed = 0
        return self._blows.popleft().target


def blows(rng: random.Random, moments: int, effects: int) -> list[Fault]:
    """Some blows for a run that would have about so many moments and effects without them."""
    count = rng.choice((0, 1, 1, 2, 2, 3, 4))
    plan: list[Fault] = []
    for number in range(count):
        target = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        of_effects = rng.random() < 0.5
        most = max(2, 2 * (effects if of_effects else moments) // (count + 1))
        if number and rng.random() < 0.35:
            most = _SOON
        plan.append(Fault(target, 1 + rng.randrange(most), of_effects))
    return plan

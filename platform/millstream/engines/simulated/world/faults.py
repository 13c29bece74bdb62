"""The fault plan of a schedule: each fault comes a number of steps after the previous one."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Died", "FaultPlan", "Killed", "Target", "planned_faults"]

_SOON = 15
"""The number of steps after a fault within which the next fault hits the recovery."""


class Target(StrEnum):
    """The target of a fault: a worker, which is killed or stopped; the coordinator; or all, when the power fails.

    With `NOBODY` the run is asked to end, as by Ctrl-C.
    """

    WORKER = "worker"
    STOPPED = "worker stopped"
    COORDINATOR = "coordinator"
    POWER = "power"
    NOBODY = "asked to end"


_WEIGHTS = {Target.WORKER: 4, Target.STOPPED: 1, Target.COORDINATOR: 4, Target.POWER: 3, Target.NOBODY: 1}


class Died(BaseException):
    """The coordinator dies at this step, and its workers with it."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.target = target


class Killed(BaseException):
    """A worker dies while it handles a message."""


@dataclass(frozen=True)
class _Fault:
    """A fault after a number of steps: of all steps, or (`of_effects`) of those just before or after an effect.

    An effect is a write that outlives the process.
    """

    target: Target
    after: int
    of_effects: bool


class FaultPlan:
    """Counts steps, and returns the target of a fault at the step of that fault.

    >>> plan = FaultPlan([_Fault(Target.WORKER, 2, of_effects=False)])
    >>> plan.next(), plan.next(), plan.next()
    (None, <Target.WORKER: 'worker'>, None)
    """

    def __init__(self, faults: Iterable[_Fault] = ()) -> None:
        self.injected: Counter[Target] = Counter()
        self._faults = deque(faults)
        self._passed = 0

    def next(self, effect: bool = False) -> Target | None:
        """The target of a fault at this step, or None. `effect`: the step is just before or after an effect."""
        if not self._faults or (self._faults[0].of_effects and not effect):
            return None
        self._passed += 1
        if self._passed < self._faults[0].after:
            return None
        self._passed = 0
        return self._faults.popleft().target


def planned_faults(rng: random.Random, steps: int, effects: int) -> list[_Fault]:
    """Random faults for a run of about this number of steps and effects."""
    count = rng.choice((0, 1, 1, 2, 2, 3, 4))
    plan: list[_Fault] = []
    for number in range(count):
        target = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        of_effects = rng.random() < 0.5
        most = max(2, 2 * (effects if of_effects else steps) // (count + 1))
        if number and rng.random() < 0.35:
            most = _SOON
        plan.append(_Fault(target, 1 + rng.randrange(most), of_effects))
    return plan

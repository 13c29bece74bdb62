"""Who goes on next, and what time it is: decided by a seed, so that all orders come up, and each again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Protocol

from millstream.errors import MillstreamError

__all__ = ["Actor", "Ready", "Scheduler", "Stuck"]

Ready = tuple[str, Callable[[], None]]
"""Something that may happen next: whose turn it would be, and what is done."""

_STEP_SECONDS = 50e-6
_SPEEDS = (0.05, 1.0, 1.0, 4.0)
"""Some are slow, some fast, so that what they send overtakes far."""
_MOST_INTERLEAVED = 3


class Stuck(MillstreamError):
    """Everybody waits for somebody else; or steps are taken, and nothing ever comes of them."""


class Actor(Protocol):
    """Somebody who may have something to do."""

    def ready(self) -> Iterable[Ready]: ...


class Scheduler:
    """Lets one of those go on who can, with a clock that moves with every step and jumps when nothing is to do.

    `patience` is how many steps may be taken of which nothing comes; it is without end by default.

    >>> scheduler = Scheduler(random.Random(1))
    >>> scheduler.at(5.0, lambda: print("five o'clock"))
    >>> scheduler.step(until=1.0), scheduler.now
    (False, 0.0)
    >>> scheduler.step(), scheduler.now
    five o'clock
    (True, 5.0)
    """

    def __init__(
        self, rng: random.Random, tell: Callable[[str], None] | None = None, patience: int | None = None
    ) -> None:
        self.rng = rng
        self.now = 0.0
        self.steps = 0
        self._tell = tell
        self._actors: list[Actor] = []
        self._speeds: dict[str, float] = {}
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._patience, self._fruitless = patience, 0

    def clock(self) -> float:
        return self.now

    def tell(self, what: Callable[[], str]) -> None:
        """A line of the trace, put together only if somebody reads it."""
        if self._tell is not None:
            self._tell(f"step {self.steps:<5} {self.now * 1000:9.3f} ms  {what()}")

    def join(self, actor: Actor) -> None:
        self._actors.append(actor)

    def clear(self) -> None:
        """All who had something to do are gone, and what was to happen to them; others come with other speeds."""
        self._actors, self._timers, self._speeds = [], [], {}
        self.progress()

    def leave(self, actor: Actor) -> None:
        self._actors.remove(actor)
        self._speeds = {}

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Have something happen at a time, unless everybody is gone before."""
        self._timers.append((time, action))
        self._timers.sort(key=lambda timer: timer[0])

    def progress(self) -> None:
        """Something has come of the steps so far."""
        self._fruitless = 0

    def step(self, until: float = math.inf) -> bool:
        """Somebody goes on; or it becomes the time of what is to happen next. False if there is nothing until then."""
        self._count()
        if self._timers and self._timers[0][0] <= self.now:
            self._timers.pop(0)[1]()
            return True
        ready = [one for actor in self._actors for one in actor.ready()]
        if ready:
            speeds = [self._speed(name) for name, _ in ready]
            self.now += self.rng.expovariate(1 / _STEP_SECONDS)
            self.rng.choices(ready, speeds)[0][1]()
            return True
        if self._timers and self._timers[0][0] <= until:
            self.now, action = self._timers.pop(0)
            action()
            return True
        return False

    def idle(self, until: float) -> None:
        """Nothing happens until then."""
        self._count()
        self.now = max(self.now, until)

    def interleave(self) -> None:
        """Time passes for the one who asks: others may go on."""
        for _ in range(self.rng.randrange(_MOST_INTERLEAVED)):
            self.step(self.now)

    def _speed(self, name: str) -> float:
        if name not in self._speeds:
            self._speeds[name] = self.rng.choice(_SPEEDS)
        return self._speeds[name]

    def _count(self) -> None:
        self.steps += 1
        self._fruitless += 1
        if self._patience is not None and self._fruitless > self._patience:
            message = f"{self._patience:,} steps were taken, and nothing came of them"
            raise Stuck(message)

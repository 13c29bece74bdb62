"""The scheduler: a seed decides the next actor and the time, so that all orders come up, and each again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Protocol

from millstream.errors import MillstreamError

__all__ = ["Actor", "Ready", "Scheduler", "Stuck"]

Ready = tuple[str, Callable[[], None]]
"""A possible next action: the name of its actor, and the action."""

_STEP_SECONDS = 50e-6
_SPEEDS = (0.05, 1.0, 1.0, 4.0)
"""Some actors are slow, some fast, so that their messages overtake others by far."""
_MOST_INTERLEAVED = 3


class Stuck(MillstreamError):
    """All actors wait for each other; or steps are taken without any progress."""


class Actor(Protocol):
    """A part of the run that may have an action to take."""

    def ready(self) -> Iterable[Ready]: ...


class Scheduler:
    """Runs one of the possible actions at a time; its clock moves with every step, and jumps when there is no action.

    `patience` is the number of steps without progress that is allowed; it is unlimited by default.

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
        """A line of the trace, made only if the trace is read."""
        if self._tell is not None:
            self._tell(f"step {self.steps:<5} {self.now * 1000:9.3f} ms  {what()}")

    def join(self, actor: Actor) -> None:
        self._actors.append(actor)

    def clear(self) -> None:
        """Remove all actors and timers; new actors get new speeds."""
        self._actors, self._timers, self._speeds = [], [], {}
        self.progress()

    def leave(self, actor: Actor) -> None:
        self._actors.remove(actor)
        self._speeds = {}

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Run an action at a time, unless `clear` comes before."""
        self._timers.append((time, action))
        self._timers.sort(key=lambda timer: timer[0])

    def progress(self) -> None:
        """The steps so far have made progress."""
        self._fruitless = 0

    def step(self, until: float = math.inf) -> bool:
        """Run one action, or go to the time of the next timer. False if there is neither until then."""
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
        """Let the time pass without an action."""
        self._count()
        self.now = max(self.now, until)

    def interleave(self) -> None:
        """Let other actors take steps while the caller's time passes."""
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

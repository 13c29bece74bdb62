"""The scheduler of the simulator, which chooses the actor that acts next, and the time, by a seed.

Every order of the actors' actions is possible. The same seed gives the same order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Protocol

from millstream.errors import MillstreamError

__all__ = ["Ready", "Scheduler", "Stuck"]

Ready = tuple[str, Callable[[], None]]
"""A possible next action: the name of its actor, and the action."""

_STEP_SECONDS = 50e-6
_SPEEDS = (0.05, 1.0, 1.0, 4.0)
"""Some actors are slow and some actors are fast, so that messages of fast actors overtake many other messages."""
_MOST_INTERLEAVED = 3


class Stuck(MillstreamError):
    """All actors wait for each other, or too many steps made no progress."""


class _Actor(Protocol):
    """A part of the run that may have an action to take."""

    def ready(self) -> Iterable[Ready]: ...


class Scheduler:
    """Runs one of the possible actions at a time.

    The scheduler's clock advances a little with each action of an actor. If no actor has an action, the clock jumps to
    the next timer.

    `stall_limit` is the largest allowed number of steps without progress; by default, there is no limit.

    >>> scheduler = Scheduler(random.Random(1))
    >>> scheduler.at(5.0, lambda: print("five o'clock"))
    >>> scheduler.step(until=1.0), scheduler.now
    (False, 0.0)
    >>> scheduler.step(), scheduler.now
    five o'clock
    (True, 5.0)
    """

    def __init__(
        self, rng: random.Random, trace: Callable[[str], None] | None = None, stall_limit: int | None = None
    ) -> None:
        self.rng = rng
        self.now = 0.0
        self.steps = 0
        self._trace = trace
        self._actors: list[_Actor] = []
        self._speeds: dict[str, float] = {}
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._stall_limit, self._stalled = stall_limit, 0

    def clock(self) -> float:
        return self.now

    def trace(self, what: Callable[[], str]) -> None:
        """Add a line to the trace; `what` is called only if the run is traced."""
        if self._trace is not None:
            self._trace(f"step {self.steps:<5} {self.now * 1000:9.3f} ms  {what()}")

    def join(self, actor: _Actor) -> None:
        self._actors.append(actor)

    def clear(self) -> None:
        """Remove all actors and timers; new actors get new speeds."""
        self._actors, self._timers, self._speeds = [], [], {}
        self.progress()

    def leave(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        self._speeds = {}

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Run `action` at `time`, unless `clear` is called before that time."""
        self._timers.append((time, action))
        self._timers.sort(key=lambda timer: timer[0])

    def progress(self) -> None:
        """Note that the run made progress: the count of steps without progress begins again at 0."""
        self._stalled = 0

    def step(self, until: float = math.inf) -> bool:
        """Run one action: of a due timer, else of an actor, else of the next timer, if its time is not after `until`.

        Return False if there is no such action.
        """
        self._count()
        if self._timers and self._timers[0][0] <= self.now:
            self._timers.pop(0)[1]()
            return True
        ready = [action for actor in self._actors for action in actor.ready()]
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
        """Advance the clock to `until`, without running an action."""
        self._count()
        self.now = max(self.now, until)

    def interleave(self) -> None:
        """Run some steps of other actors, up to the present time."""
        for _ in range(self.rng.randrange(_MOST_INTERLEAVED)):
            self.step(self.now)

    def _speed(self, name: str) -> float:
        if name not in self._speeds:
            self._speeds[name] = self.rng.choice(_SPEEDS)
        return self._speeds[name]

    def _count(self) -> None:
        self.steps += 1
        self._stalled += 1
        if self._stall_limit is not None and self._stalled > self._stall_limit:
            message = f"{self._stall_limit:,} steps were taken without progress"
            raise Stuck(message)

"""The machine that a simulated run has to itself: its time, and what may befall it at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from millstream.engines.simulated.fate import Died, Fate, Killed, Victim
from millstream.engines.simulated.scheduler import Scheduler

__all__ = ["Machine", "Mortal"]

_Made = TypeVar("_Made")


class Mortal(Protocol):
    """Workers that can be struck."""

    @property
    def alive(self) -> list[str]: ...

    @property
    def running(self) -> str | None:
        """The worker that is in the midst of something, if one is."""
        ...

    def strike(self, name: str, *, stopped: bool) -> None: ...


class Machine:
    """Where every moment of a run passes by: there others go on meanwhile, and somebody may be struck.

    It has one thread, in which the coordinator's code runs: workers take their turns inside of what it calls.
    """

    def __init__(self, scheduler: Scheduler, fate: Fate | None = None) -> None:
        self.scheduler = scheduler
        self.fate = fate if fate is not None else Fate()
        self.workers: Mortal | None = None
        self.asked = threading.Event()
        """Set when the run that goes on now is asked to end."""

    def moment(self, *, effect: bool = False) -> None:
        """Raises `Died` or `Killed` if whoever asks is struck."""
        victim = self.fate.moment(effect)
        if victim is None:
            return
        if victim is Victim.NOBODY:
            self.fate.struck[victim] += 1
            self.scheduler.tell(lambda: "*** the run is asked to end")
            self.asked.set()
            return
        workers = self.workers if self.workers is not None and self.workers.alive else None
        if victim in (Victim.WORKER, Victim.STOPPED) and workers is not None:
            self.fate.struck[victim] += 1
            running = workers.running
            name = running or self.scheduler.rng.choice(workers.alive)
            workers.strike(name, stopped=victim is Victim.STOPPED)
            if running is not None:
                raise Killed
            return
        if victim is not Victim.POWER:
            victim = Victim.COORDINATOR
        self.fate.struck[victim] += 1
        self.scheduler.tell(lambda: f"*** {victim}: all memory is gone")
        raise Died(victim)

    def effect(self, what: Callable[[], str], do: Callable[[], _Made]) -> _Made:
        """Do what outlives the process; it may die just before, or just after."""
        self.scheduler.meanwhile()
        self.moment(effect=True)
        made = do()
        self.scheduler.progress()
        self.scheduler.tell(lambda: f"coordinator: {what()}")
        self.moment(effect=True)
        return made

"""The world of a simulated run: its time, and the faults that a plan injects into it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from millstream.engines.simulated.world.faults import Died, FaultPlan, Killed, Target
from millstream.engines.simulated.world.scheduler import Scheduler

__all__ = ["World"]

_Made = TypeVar("_Made")


class _Targets(Protocol):
    """Workers that a fault can hit."""

    @property
    def alive(self) -> list[str]: ...

    @property
    def running(self) -> str | None:
        """The worker that handles a message now, or None."""
        ...

    def hit(self, name: str, *, stopped: bool) -> None: ...


class World:
    """The place of every step of a run: here other actors are interleaved, and faults are injected.

    The world has one thread, which runs the code of the coordinator; workers run inside the calls of that code.
    """

    def __init__(self, scheduler: Scheduler, plan: FaultPlan | None = None) -> None:
        self.scheduler = scheduler
        self.plan = plan if plan is not None else FaultPlan()
        self.workers: _Targets | None = None
        self.asked = threading.Event()
        """Set when the present start of the run is asked to end."""

    def step(self, *, effect: bool = False) -> None:
        """Take one step of the run. `Died` or `Killed` if a fault hits the process that takes the step."""
        target = self.plan.next(effect)
        if target is None:
            return
        if target is Target.NOBODY:
            self.plan.injected[target] += 1
            self.scheduler.trace(lambda: "*** the run is asked to end")
            self.asked.set()
            return
        workers = self.workers if self.workers is not None and self.workers.alive else None
        if target in (Target.WORKER, Target.STOPPED) and workers is not None:
            self.plan.injected[target] += 1
            running = workers.running
            name = running or self.scheduler.rng.choice(workers.alive)
            workers.hit(name, stopped=target is Target.STOPPED)
            if running is not None:
                raise Killed
            return
        if target is not Target.POWER:
            target = Target.COORDINATOR
        self.plan.injected[target] += 1
        self.scheduler.trace(lambda: f"*** {target}: all memory is gone")
        raise Died(target)

    def effect(self, what: Callable[[], str], do: Callable[[], _Made], process: str = "coordinator") -> _Made:
        """Run an effect: a write that outlives the process. A fault may come just before or just after the effect."""
        self.scheduler.interleave()
        self.step(effect=True)
        made = do()
        self.scheduler.progress()
        self.scheduler.trace(lambda: f"{process}: {what()}")
        self.step(effect=True)
        return made

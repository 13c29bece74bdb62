"""The background of a simulated process: the scheduler decides when each piece of work takes its next step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from millstream.engines.simulated.world.scheduler import Ready, Scheduler
from millstream.state.background import Task, Work

__all__ = ["SimulatedBackground"]

_Made = TypeVar("_Made")
_BURSTS = (1, 3, 100)
"""The numbers of steps that a piece of work may take at once, without a step of the driver in between."""


class SimulatedBackground:
    """Does the work of one process, one operation on a file at a time."""

    def __init__(self, scheduler: Scheduler, process: str) -> None:
        self._scheduler, self._process = scheduler, process
        self._tasks: list[_Steps[object]] = []

    def start(self, work: Work[_Made]) -> Task[_Made]:
        task = _Steps(work, self._scheduler)
        self._tasks = [*(other for other in self._tasks if not other.done), task]  # type: ignore[list-item]
        return task

    def ready(self) -> Iterator[Ready]:
        for task in self._tasks:
            if not task.done and not task.running:
                yield f"{self._process} writes", task.step


class _Steps(Task[_Made]):
    def __init__(self, work: Work[_Made], scheduler: Scheduler) -> None:
        self._work, self._scheduler = work, scheduler
        self._began, self._seconds = scheduler.now, 0.0
        self._made: list[_Made] = []
        self._error: Exception | None = None
        self._burst = scheduler.rng.choice(_BURSTS)
        self.running = False

    @property
    def done(self) -> bool:
        return bool(self._made) or self._error is not None

    @property
    def seconds(self) -> float:
        return self._seconds

    def step(self) -> None:
        """Take the next steps of the work."""
        self.running = True
        try:
            for _ in range(self._burst):
                next(self._work)
        except StopIteration as end:
            self._made.append(end.value)
        except Exception as error:
            self._error = error
        finally:
            self.running = False
        self._seconds = self._scheduler.now - self._began

    def result(self) -> _Made:
        self.leave()
        if self._error is not None:
            raise self._error
        return self._made[0]

    def leave(self) -> None:
        while not self.done:
            self._scheduler.step()

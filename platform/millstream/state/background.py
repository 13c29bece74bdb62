"""Work in the background: file operations one after the other, in a thread, or in steps that a simulator chooses."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

__all__ = ["Background", "Foreground", "Task", "ThreadedBackground", "Work", "finish"]

_LOGGER = logging.getLogger(__name__)
_Made = TypeVar("_Made")
_Out = TypeVar("_Out", covariant=True)

Work = Generator[None, None, _Made]
"""A piece of work that yields after each operation on a file; it returns its result."""


class Task(Protocol[_Out]):
    """A piece of work that was started."""

    @property
    def done(self) -> bool: ...

    @property
    def seconds(self) -> float:
        """The time that the work took, once it is done."""
        ...

    def result(self) -> _Out:
        """Wait for the result; an error of the work is raised here."""
        ...

    def leave(self) -> None:
        """Wait until this process no longer works on it; an error that `result` has not raised is only logged."""
        ...


class Background(Protocol):
    """Starts work that goes on while the caller continues."""

    def start(self, work: Work[_Made]) -> Task[_Made]: ...


class Foreground:
    """Does each piece of work at once; the caller waits, without the cost of a thread.

    >>> def work():
    ...     yield
    ...     return 7
    >>> Foreground().start(work()).result()
    7
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    def start(self, work: Work[_Made]) -> Task[_Made]:
        began = self._clock()
        return _Done(finish(work), self._clock() - began)


@dataclass(frozen=True)
class _Done(Generic[_Made]):
    """Work that is done, and the time that it took."""

    made: _Made
    seconds: float
    done: bool = True

    def result(self) -> _Made:
        return self.made

    def leave(self) -> None: ...


class ThreadedBackground:
    """Does each piece of work in a thread of its own.

    >>> def work():
    ...     yield
    ...     return 7
    >>> ThreadedBackground().start(work()).result()
    7
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    def start(self, work: Work[_Made]) -> Task[_Made]:
        return _Thread(work, self._clock)


class _Thread(Task[_Made]):
    def __init__(self, work: Work[_Made], clock: Callable[[], float]) -> None:
        self._work, self._clock = work, clock
        self._made: list[_Made] = []
        self._error: BaseException | None = None
        self._is_raised = False
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="millstream-checkpoint")
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    @property
    def seconds(self) -> float:
        return self._seconds

    def result(self) -> _Made:
        self._thread.join()
        if self._error is not None:
            self._is_raised = True
            raise self._error
        return self._made[0]

    def leave(self) -> None:
        self._thread.join()
        if self._error is not None and not self._is_raised:
            _LOGGER.warning("work in the background failed: %s", self._error)

    def _run(self) -> None:
        began = self._clock()
        try:
            self._made.append(finish(self._work))
        except BaseException as error:  # `result` raises it
            self._error = error
        self._seconds = self._clock() - began


def finish(work: Work[_Made]) -> _Made:
    """Do a piece of work to its end, in this thread."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            made: _Made = end.value
            return made

"""A run in a thread of this process: its status while it goes on, a way to stop it, and its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from millstream.api.run import Run
from millstream.errors import MillstreamError

if TYPE_CHECKING:
    from millstream.runs.watch.run_status import RunStatus

__all__ = ["Running"]

Work = Callable[[threading.Event, Callable[[], None]], Run]
"""Runs until the event is set; calls the function when the run directory can be read."""


class Running:
    """A run in a thread; as a context manager, it stops the run and waits for its end.

    After `stop`, and at the end of the `with` block, the run finishes the epoch in progress and writes a checkpoint.
    """

    def __init__(self, view: Run, work: Work) -> None:
        self.path = view.path
        self._view = view
        self._stop, self._begun, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._is_open = False
        self._result: Run | BaseException = MillstreamError(f"{self.path} has not ended yet")
        self._thread = threading.Thread(
            target=self._work, args=(work,), name=f"millstream-{self.path.name}", daemon=True
        )
        self._thread.start()

    def status(self) -> RunStatus:
        """Return the status of the run; waits for its start, and raises the error of a run that could not start."""
        self._begun.wait()
        if not self._is_open and isinstance(self._result, BaseException):
            raise self._result
        return self._view.status()

    def stop(self) -> None:
        """Request the end of the run after the epoch in progress; returns at once."""
        self._stop.set()

    def wait(self) -> Run:
        """Wait for the end of the run, and return it; raises the error of a run that failed."""
        self._ended.wait()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        self._ended.wait()
        if error is None:
            self.wait()
        elif isinstance(self._result, BaseException) and error is not self._result:
            error.add_note(f"{self.path} ended with an error: {self._result}")

    def __repr__(self) -> str:
        return f"<Running {self.path}, {'ended' if self._ended.is_set() else 'in progress'}>"

    def _work(self, work: Work) -> None:
        try:
            self._result = work(self._stop, self._open)
        except BaseException as error:  # `wait` raises it, in the thread of the caller
            self._result = error
        finally:
            self._begun.set()
            self._ended.set()

    def _open(self) -> None:
        self._is_open = True
        self._begun.set()

"""A Spark session for batch work: it starts in the background, and runs a function on parts of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from millstream.errors import MillstreamError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["BackgroundSession"]

_POLL_SECONDS = 0.25

_OnPartition = Callable[[Iterable[list[str]]], None]
"""A function that a Python process of Spark calls with the parts of one Spark task."""


class BackgroundSession:
    """Spark from `start` to the end of the `with` block, which leaves no process; nothing without `start`.

    `at_once` is the number of Spark tasks; None: one for each part, of which as many run at once as there are cores.
    `work` and `missing` name the work and its parts in the message of an error.
    """

    def __init__(self, log: Path, at_once: int | None, work: str, missing: str) -> None:
        self._log, self._at_once, self._work, self._missing = log, at_once, work, missing
        self._runner = ThreadPoolExecutor(1, "millstream-batch")
        self._opened: Future[SparkSession] | None = None
        self._prepared: Future[None] | None = None

    def __enter__(self) -> BackgroundSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._runner.shutdown()
        if self._opened is not None and self._opened.exception() is None:
            from millstream.engines.spark.shared_session import SHARED

            SHARED.leave(self._opened.result(), keep=False)

    @property
    def is_started(self) -> bool:
        return self._opened is not None

    def start(self) -> None:
        """Open the session in the background."""
        from millstream.engines.spark.shared_session import SHARED

        self._opened = self._runner.submit(SHARED.open, self._log)

    def prepare(self, function: _OnPartition, parts: int) -> None:
        """Call a function in the background, in as many processes as will work on so many parts at once."""

        def call() -> None:
            context = self._context()
            count = min(self._tasks(parts), context.defaultParallelism)
            context.parallelize([[""]] * count, count).foreachPartition(function)

        self._prepared = self._runner.submit(call)

    def run(self, function: _OnPartition, parts: Sequence[str], watch: Callable[[], None] = lambda: None) -> None:
        """Call a function on all parts, in Spark tasks; `watch` is called again and again."""
        if not parts:
            return
        context = self._context()
        try:
            count = self._tasks(len(parts))
            # Parts are dealt one by one: those that take long come first, and are not all in one task.
            job = context.parallelize([[*parts[number::count]] for number in range(count)], count)
            done = self._runner.submit(job.foreachPartition, function)
            try:
                while not wait([done], _POLL_SECONDS).done:
                    watch()
                if self._prepared is not None:
                    self._prepared.result()
                done.result()
            except BaseException:
                context.cancelAllJobs()
                raise
            watch()
        except Exception as error:
            raise self._explained(error) from error

    def _context(self) -> SparkContext:
        if self._opened is None:
            message = "the session was not started"
            raise RuntimeError(message)
        return self._opened.result().sparkContext

    def _tasks(self, parts: int) -> int:
        return min(self._at_once or parts, parts)

    def _explained(self, error: Exception) -> MillstreamError:
        """Return the error that ended a job in the words of Millstream; only an open session can print Spark's."""
        from millstream.engines.spark.failures import error_of

        if isinstance(error, MillstreamError):
            return error
        found = error_of(str(error))
        if not str(found).startswith("Spark's query ended"):
            return found
        reason = str(found).removeprefix("Spark's query ended: ").removesuffix("; --debug shows more")
        message = f"Spark ended before {self._work}: {reason}; the same command continues with {self._missing}"
        return MillstreamError(message)

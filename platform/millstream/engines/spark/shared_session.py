"""The Spark session of a process, which all of its runs share: the last run that ends closes the session."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from millstream.engines.spark.session import close_session, open_session

__all__ = ["SHARED"]


class _SharedSession:
    """Opens a session for the first run, and closes it after the last one; a session of the program stays open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._own: SparkContext | None = None
        """The context that a run opened; a run may have left it open for a later one."""

    def open(self, log: Path) -> SparkSession:
        """Return the session of this process; Spark's messages go to the file `log` of the run that opened it."""
        with self._lock:
            is_first = SparkContext._active_spark_context is None
            with ThreadPoolExecutor(1, "millstream-spark") as opening:  # PySpark takes the main thread's signals
                session = opening.submit(open_session, log).result()
            if is_first:
                self._own = session.sparkContext
            self._users += 1
            return session

    def leave(self, session: SparkSession, *, keep: bool) -> None:
        """Close the session if no other run uses it; with `keep`, leave it open for a later run."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and session.sparkContext is self._own and not keep:
                close_session(session)
                self._own = None


SHARED = _SharedSession()

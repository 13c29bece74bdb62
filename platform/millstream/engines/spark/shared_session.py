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
        self._is_own = True

    def open(self, log: Path) -> SparkSession:
        """Return the session of this process; Spark's messages go to the file `log` of the run that opened it."""
        with self._lock:
            if self._users == 0:
                self._is_own = SparkContext._active_spark_context is None
            with ThreadPoolExecutor(1, "millstream-spark") as opening:  # PySpark takes the main thread's signals
                session = opening.submit(open_session, log).result()
            self._users += 1
            return session

    def leave(self, session: SparkSession, *, keep: bool) -> None:
        """Close the session if no other run uses it; with `keep`, leave it open for a later run."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._is_own and not keep:
                close_session(session)


SHARED = _SharedSession()

"""The Spark engine: a streaming query reads the epochs that the driver loop cuts, and returns their records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from millstream.engines.job import Job
from millstream.engines.recovery import run_with_recovery
from millstream.engines.spark.feed import SparkFeed
from millstream.engines.spark.shared_session import SHARED

__all__ = ["SparkEngine"]


class SparkEngine:
    """Runs a job with a Structured Streaming query; `keep_session` leaves Spark running for the next job."""

    def __init__(self, *, keep_session: bool = False) -> None:
        self._keep_session = keep_session

    def run(self, job: Job) -> None:
        folder = job.folder / "spark"
        opened: list[SparkSession] = []

        def session() -> SparkSession:
            if not opened:
                opened.append(SHARED.open(folder / "spark.log"))
            return opened[0]

        @contextmanager
        def open_feed(ahead: bool) -> Iterator[SparkFeed]:
            feed = SparkFeed(job, session, folder)
            try:
                yield feed
            finally:
                feed.close()

        try:
            run_with_recovery(job, open_feed, f"look at {folder / 'spark.log'}, and at the load and the memory")
        finally:
            if opened:
                SHARED.leave(opened[0], keep=self._keep_session)

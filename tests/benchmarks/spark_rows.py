"""What Spark needs by itself to bring rows to the driver."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.steady import Mark, Rate, steady_rate
from pyspark.sql import DataFrame, SparkSession

__all__ = ["AT_ONCE", "COLUMNS", "read_rows", "stream_rows"]

COLUMNS = "text STRING, label STRING, time TIMESTAMP"
AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"


def read_rows(parts: Path) -> Rate:
    """One Parquet file of `parts` after the other, to Arrow on the driver."""
    with _spark() as spark:
        marks = [Mark(time.monotonic(), 0)]
        for part in sorted(parts.iterdir()):
            rows = spark.read.schema(COLUMNS).parquet(str(part)).toArrow().num_rows
            marks.append(Mark(time.monotonic(), marks[-1].records + rows))
        return steady_rate(marks)


def stream_rows(parts: Path, work: Path) -> Rate:
    """The same as a stream: each file is a micro-batch."""
    shutil.rmtree(work, ignore_errors=True)
    marks: list[Mark] = []

    def bring(batch: DataFrame, _: int) -> None:
        rows = batch.toArrow().num_rows
        marks.append(Mark(time.monotonic(), (marks[-1].records if marks else 0) + rows))

    with _spark() as spark:
        stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(parts))
        writer = stream.writeStream.foreachBatch(bring).option("checkpointLocation", str(work))
        writer.trigger(availableNow=True).start().awaitTermination()
        return steady_rate(marks)


@contextmanager
def _spark() -> Iterator[SparkSession]:
    """The session that there is, with Spark's own size of Arrow's batches: ours is for rows that hold many records."""
    spark = SparkSession.active()
    ours = spark.conf.get(AT_ONCE) or ""
    spark.conf.unset(AT_ONCE)
    yield spark
    spark.conf.set(AT_ONCE, ours)

"""What Spark needs by itself to bring rows to the driver."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks.steady import Mark, Rate, steady_rate
from pyspark.sql import DataFrame, SparkSession

__all__ = ["AT_ONCE", "COLUMNS", "bring_rows"]

COLUMNS = "text STRING, label STRING, time TIMESTAMP"
AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"


def bring_rows(parts: Path, work: Path) -> Rate:
    """Each Parquet file of `parts` as a micro-batch, to Arrow on the driver; Spark's own size of Arrow's batches."""
    spark = SparkSession.active()
    ours = spark.conf.get(AT_ONCE) or ""
    spark.conf.unset(AT_ONCE)
    shutil.rmtree(work, ignore_errors=True)
    marks: list[Mark] = []

    def bring(batch: DataFrame, _: int) -> None:
        rows = batch.toArrow().num_rows
        marks.append(Mark(time.monotonic(), (marks[-1].records if marks else 0) + rows))

    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(parts))
    writer = stream.writeStream.foreachBatch(bring).option("checkpointLocation", str(work))
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.conf.set(AT_ONCE, ours)
    return steady_rate(marks)

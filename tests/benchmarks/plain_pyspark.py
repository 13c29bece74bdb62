"""The same work in PySpark as its users write it: foreachBatch over a stream of files, the model on the driver."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.learner import BlockLearner
from benchmarks.steady import Mark
from pyspark.sql import DataFrame, SparkSession

from millstream.engines.spark.session import open_session
from millstream.java import java_home

__all__ = ["run_plain", "run_tuned"]

_COLUMNS = "text STRING, label STRING, time STRING"
_Handler = Callable[[DataFrame, int], None]


def run_plain(documents: Path, work: Path) -> tuple[list[Mark], int]:
    """Spark as it comes: every file of `documents` a micro-batch, predictions to Parquet, checkpoint on."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[*]").appName("plain").getOrCreate()
    learner, marks = BlockLearner(), list[Mark]()
    (work / "predictions").mkdir()

    def learn(batch: DataFrame, number: int) -> None:
        rows = batch.toPandas()
        classes, probability = learner.take(rows["text"].tolist(), rows["label"].tolist())
        rows["predicted"] = _named(learner, classes)
        rows["probability"] = probability
        rows.to_parquet(work / "predictions" / f"{number:06d}.parquet")
        marks.append(_mark(marks, len(rows)))

    _stream(spark, documents, work, learn)
    spark.stop()
    return marks, learner.correct


def run_tuned(documents: Path, work: Path, *, durable: bool) -> tuple[list[Mark], int]:
    """Our session's settings and Arrow; with `durable` every micro-batch leaves predictions, model and a manifest of
    both on disk, synced, so that a restart could go on from there and skip what is done."""
    spark = open_session(work / "spark.log")
    learner, marks = BlockLearner(), list[Mark]()
    (work / "predictions").mkdir()

    def learn(batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        classes, probability = learner.take(rows["text"].to_pylist(), rows["label"].to_pylist())
        predictions = rows.append_column("predicted", pa.array(_named(learner, classes)))
        predictions = predictions.append_column("probability", pa.array(probability)).drop_columns(["text"])
        with (work / "predictions" / f"{number:06d}.parquet").open("wb") as file:
            pq.write_table(predictions, file)
            _synced(file, durable)
        if durable:
            _publish(work, number, learner)
        marks.append(_mark(marks, rows.num_rows))

    _stream(spark, documents, work, learn)
    spark.stop()
    return marks, learner.correct


def _stream(spark: SparkSession, documents: Path, work: Path, learn: _Handler) -> None:
    stream = spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).json(str(documents))
    writer = stream.writeStream.foreachBatch(learn).option("checkpointLocation", str(work / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def _publish(work: Path, number: int, learner: BlockLearner) -> None:
    """Model and manifest; the manifest's name is what makes the micro-batch count."""
    model = work / f"model-{number % 2}.npz"
    packed = io.BytesIO()
    arrays: Any = {name: np.asarray(value) for name, value in learner.save().items()}
    np.savez(packed, **arrays)
    with model.open("wb") as file:
        file.write(packed.getbuffer())
        _synced(file, True)
    with (work / "manifest.tmp").open("w") as file:
        json.dump({"batch": number, "model": model.name, "classes": learner.names}, file)
        _synced(file, True)
    (work / "manifest.tmp").rename(work / "manifest.json")
    for folder in (work, work / "predictions"):
        handle = os.open(folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def _synced(file: Any, durable: bool) -> None:
    file.flush()
    if durable:
        os.fsync(file.fileno())


def _named(learner: BlockLearner, classes: Any) -> Any:
    return np.array([*learner.names, None], object)[classes]


def _mark(marks: list[Mark], rows: int) -> Mark:
    return Mark(time.monotonic(), (marks[-1].records if marks else 0) + rows)

"""PySpark as its users write it: foreachBatch over a stream of files, one file a micro-batch; the model on the driver.

All functions report the rate after the first micro-batch.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contenders.columnar_loop import HourlyCounts
from benchmarks.contenders.mini_batch_learner import MiniBatchLearner
from benchmarks.contenders.text_learners import DIMENSIONS
from benchmarks.kit.rates import Rate, Samples
from millstream.engines.spark.session import open_session
from millstream.java import java_home

__all__ = ["classify", "read_to_arrow", "run_plain", "run_tuned"]

_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"
_Handler = Callable[[DataFrame, int], int]


def run_plain(documents: str, work: str) -> Rate:
    """Spark's default settings, pandas, predictions to Parquet, checkpoint on."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[*]").appName("plain").getOrCreate()
    learner, predictions = MiniBatchLearner(), Path(work) / "predictions"
    predictions.mkdir()

    def learn(batch: DataFrame, number: int) -> int:
        rows = batch.toPandas()
        classes, probability = learner.take(rows["text"].tolist(), rows["label"].tolist())
        rows["predicted"] = _names(learner, classes)
        rows["probability"] = probability
        rows.to_parquet(predictions / f"{number:06d}.parquet")
        return len(rows)

    return _streamed(spark, "json", documents, work, learn).rate(learner.correct)


def run_tuned(documents: str, work: str, *, durable: bool) -> Rate:
    """The settings of our session, and Arrow.

    With `durable`, every micro-batch leaves predictions, model and a manifest of both on disk, synced, so that a
    restart could continue from there and skip the finished micro-batches.
    """
    spark = open_session(Path(work) / "spark.log")
    learner, predictions = MiniBatchLearner(), Path(work) / "predictions"
    predictions.mkdir()

    def learn(batch: DataFrame, number: int) -> int:
        rows = batch.toArrow()
        classes, probability = learner.take(rows["text"].to_pylist(), rows["label"].to_pylist())
        table = rows.append_column("predicted", pa.array(_names(learner, classes)))
        table = table.append_column("probability", pa.array(probability)).drop_columns(["text"])
        with (predictions / f"{number:06d}.parquet").open("wb") as file:
            pq.write_table(table, file)
            _synced(file, durable)
        if durable:
            _publish(Path(work), number, learner)
        return int(rows.num_rows)

    return _streamed(spark, "json", documents, work, learn).rate(learner.correct)


def classify(parts: str, work: str, topics: Sequence[str], alpha: float) -> Rate:
    """The job of text pipelines with scikit-learn: predict all of a micro-batch, then learn all of it.

    All labels have to be given in advance, because scikit-learn needs them.
    """
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.naive_bayes import MultinomialNB

    spark = open_session(Path(work) / "spark.log")
    spark.conf.unset(_AT_ONCE)  # our value is for rows that hold many records
    words, model = HashingVectorizer(n_features=DIMENSIONS, alternate_sign=False, norm=None), MultinomialNB(alpha=alpha)
    codes = {topic: code for code, topic in enumerate(topics)}
    names, counts = pa.array(topics), HourlyCounts(len(topics))
    correct = 0

    def learn(batch: DataFrame, number: int) -> int:
        nonlocal correct
        rows = batch.toArrow().combine_chunks()
        labels = np.array([codes[label] for label in rows["label"].to_pylist()])
        inputs = words.transform(rows["text"].to_pylist())
        classes, probability = np.full(len(labels), -1), np.zeros(len(labels))
        if number:
            probabilities = model.predict_proba(inputs)
            classes, probability = probabilities.argmax(axis=1), probabilities.max(axis=1)
        model.partial_fit(inputs, labels, classes=np.arange(len(topics)))
        predicted = names.take(pa.array(classes, mask=classes < 0))
        predictions = pa.table({"label": rows["label"], "predicted": predicted, "probability": probability})
        pq.write_table(predictions, Path(work) / f"predictions-{number:06d}.parquet")
        counts.add(rows["time"].chunk(0), classes)
        correct += int(np.count_nonzero(classes == labels))
        return len(labels)

    samples = _streamed(spark, "parquet", parts, work, learn)
    pq.write_table(counts.table(), Path(work) / "topics.parquet")
    return samples.rate(correct)


def read_to_arrow(parts: Path) -> Rate:
    """Bring one Parquet file after the other to the driver as Arrow, in the active session, and nothing else."""
    spark = SparkSession.active()
    ours = spark.conf.get(_AT_ONCE) or ""
    spark.conf.unset(_AT_ONCE)
    samples = Samples([(time.monotonic(), 0)])
    for part in sorted(parts.iterdir()):
        samples.add(
            spark.read.schema("text STRING, label STRING, time TIMESTAMP").parquet(str(part)).toArrow().num_rows
        )
    spark.conf.set(_AT_ONCE, ours)
    return samples.rate()


def _streamed(spark: SparkSession, kind: str, files: str, work: str, handle: _Handler) -> Samples:
    """Stream all files through the handler, which returns the number of its rows; then stop the session."""
    samples = Samples()
    schema = "text STRING, label STRING, time " + ("STRING" if kind == "json" else "TIMESTAMP")
    stream = spark.readStream.schema(schema).format(kind).option("maxFilesPerTrigger", 1).load(files)
    writer = stream.writeStream.foreachBatch(lambda batch, number: samples.add(handle(batch, number)))
    writer = writer.option("checkpointLocation", str(Path(work) / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    return samples


def _publish(work: Path, number: int, learner: MiniBatchLearner) -> None:
    """Write model and manifest. The rename of the manifest makes the micro-batch count."""
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


def _names(learner: MiniBatchLearner, classes: Any) -> Any:
    return np.array([*learner.names, None], object)[classes]

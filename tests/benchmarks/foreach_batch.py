"""The job of text pipelines in PySpark by hand: foreachBatch, and scikit-learn's partial_fit on the driver."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.columnar_loop import HourlyCounts
from benchmarks.spark_rows import AT_ONCE, COLUMNS
from benchmarks.steady import Mark, steady_rate
from benchmarks.text_learners import DIMENSIONS
from pyspark.sql import DataFrame

from millstream.engines.spark.session import open_session

__all__ = ["classify"]


def classify(parts: str, work: str, topics: Sequence[str], alpha: float) -> dict[str, Any]:
    """Each Parquet file of `parts` is a micro-batch: predict all of it, then learn all of it; the rate after the first.

    All labels have to be named before, as scikit-learn wants it.
    """
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.naive_bayes import MultinomialNB

    spark = open_session(Path(work) / "spark.log")
    spark.conf.unset(AT_ONCE)  # ours is for rows that hold many records
    words, model = HashingVectorizer(n_features=DIMENSIONS, alternate_sign=False, norm=None), MultinomialNB(alpha=alpha)
    codes = {topic: code for code, topic in enumerate(topics)}
    names, counts = pa.array(topics), HourlyCounts(len(topics))
    marks: list[Mark] = []
    correct = 0

    def learn(batch: DataFrame, number: int) -> None:
        nonlocal correct
        rows = batch.toArrow().combine_chunks()
        labels = np.array([codes[label] for label in rows["label"].to_pylist()])
        inputs = words.transform(rows["text"].to_pylist())
        classes, probability = np.full(len(labels), -1), np.zeros(len(labels))
        if marks:
            probabilities = model.predict_proba(inputs)
            classes, probability = probabilities.argmax(axis=1), probabilities.max(axis=1)
        model.partial_fit(inputs, labels, classes=np.arange(len(topics)))
        predicted = names.take(pa.array(classes, mask=classes < 0))
        predictions = pa.table({"label": rows["label"], "predicted": predicted, "probability": probability})
        pq.write_table(predictions, Path(work) / f"predictions-{number:06d}.parquet")
        counts.add(rows["time"].chunk(0), classes)
        correct += int(np.count_nonzero(classes == labels))
        marks.append(Mark(time.monotonic(), (marks[-1].records if marks else 0) + len(labels)))

    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(parts)
    writer = stream.writeStream.foreachBatch(learn).option("checkpointLocation", str(Path(work) / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    pq.write_table(counts.table(), Path(work) / "topics.parquet")
    spark.stop()
    return {"per_second": steady_rate(marks).per_second, "records": marks[-1].records, "correct": correct}

"""The bare Python loops: no engine, nothing durable, predictions kept in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.learner import BlockLearner
from benchmarks.steady import Mark, Rate, steady_rate

from millstream.log.contracts import Place
from millstream_connectors.files.source import FilesSource

__all__ = ["run_loop", "run_river_loop"]


def run_loop(file: Path, cache: Path, records: int, epoch: int) -> tuple[Rate, int]:
    """Read with our own reader `epoch` records at a time, predict, learn; the rate, and how many were right."""
    learner = BlockLearner()
    kept, marks = [], []
    for stop, texts, labels in _read(file, cache, records, epoch):
        kept.append(learner.take(texts, labels))
        marks.append(Mark(time.monotonic(), stop))
    return steady_rate(marks), learner.correct


def run_river_loop(file: Path, cache: Path, records: int, epoch: int) -> tuple[Rate, int]:
    """The same with river, record by record: its words, predict one, learn one."""
    from river.feature_extraction import BagOfWords
    from river.naive_bayes import MultinomialNB

    words: Any = BagOfWords()
    model: Any = MultinomialNB()  # type: ignore[no-untyped-call]
    kept: list[str | None] = []
    marks: list[Mark] = []
    correct = 0
    for stop, texts, labels in _read(file, cache, records, epoch):
        for text, label in zip(texts, labels, strict=True):
            counts = words.transform_one(text)
            predicted = model.predict_one(counts)
            model.learn_one(counts, label)
            kept.append(predicted)
            correct += predicted == label
        marks.append(Mark(time.monotonic(), stop))
    return steady_rate(marks), correct


def _read(file: Path, cache: Path, records: int, epoch: int) -> Iterator[tuple[int, list[str], list[str]]]:
    """Texts and labels, `epoch` of them at a time, with how many have come by then."""
    log = FilesSource(path=str(file)).open(Place(file.parent, cache))
    log.end(file.name)
    for start in range(0, records, epoch):
        stop = min(records, start + epoch)
        texts: list[str] = []
        labels: list[str] = []
        for batch in log.read(file.name, start, stop):
            texts += batch["text"].to_pylist()
            labels += batch["label"].to_pylist()
        yield stop, texts, labels
    log.close()

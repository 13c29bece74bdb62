"""Bare Python loops: no engine, nothing durable, predictions kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.contenders.mini_batch_learner import MiniBatchLearner
from benchmarks.contenders.text_learners import river_naive_bayes
from benchmarks.kit.rates import Rate, Samples
from millstream.log.contracts import OpenContext
from millstream_connectors.files.source import FilesSource

__all__ = ["run_loop", "run_river_loop"]


def run_loop(file: Path, cache: Path, records: int, epoch: int) -> Rate:
    """Read with our reader `epoch` records at a time, predict, learn."""
    learner, samples, kept = MiniBatchLearner(), Samples(), []
    for texts, labels in _read(file, cache, records, epoch):
        kept.append(learner.take(texts, labels))
        samples.add(len(texts))
    return samples.rate(learner.correct)


def run_river_loop(file: Path, cache: Path, records: int, epoch: int) -> Rate:
    """Read the same, with River as the learner, record by record."""
    classify, samples, kept, correct = river_naive_bayes(alpha=1), Samples(), list[str | None](), 0
    for texts, labels in _read(file, cache, records, epoch):
        for text, label in zip(texts, labels, strict=True):
            kept.append(classify(text, label))
            correct += kept[-1] == label
        samples.add(len(texts))
    return samples.rate(correct)


def _read(file: Path, cache: Path, records: int, epoch: int) -> Iterator[tuple[list[str], list[str]]]:
    """Texts and labels, `epoch` of them at a time."""
    log = FilesSource(path=str(file)).open(OpenContext(file.parent, cache))
    log.end(file.name)
    for start in range(0, records, epoch):
        texts: list[str] = []
        labels: list[str] = []
        for batch in log.read(file.name, start, min(records, start + epoch)):
            texts += batch["text"].to_pylist()
            labels += batch["label"].to_pylist()
        yield texts, labels
    log.close()

"""The bare Python loop: no engine, nothing durable, predictions kept in memory."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.learner import BlockLearner
from benchmarks.steady import Mark, Rate, steady_rate

from millstream.log.contracts import Place
from millstream_connectors.files.source import FilesSource

__all__ = ["run_loop"]


def run_loop(file: Path, cache: Path, records: int, epoch: int) -> tuple[Rate, int]:
    """Read with our own reader `epoch` records at a time, predict, learn; the rate, and how many were right."""
    log = FilesSource(path=str(file)).open(Place(file.parent, cache))
    log.end(file.name)
    learner = BlockLearner()
    kept, marks = [], []
    for start in range(0, records, epoch):
        stop = min(records, start + epoch)
        texts: list[str] = []
        labels: list[str] = []
        for batch in log.read(file.name, start, stop):
            texts += batch["text"].to_pylist()
            labels += batch["label"].to_pylist()
        kept.append(learner.take(texts, labels))
        marks.append(Mark(time.monotonic(), stop))
    log.close()
    return steady_rate(marks), learner.correct

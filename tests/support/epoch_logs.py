"""Epoch logs in several small segments, and their compaction."""

from __future__ import annotations

import random
from pathlib import Path

from millstream.digests import Digest
from millstream.log.epochs import Added, Baselines, Epoch, EpochLog, EpochReceipt, PartitionName, Scores, SinkAdded

__all__ = ["EPOCHS", "compact", "epoch", "filled", "receipt"]

EPOCHS = 3000
_FIRST = (Added(PartitionName("source", "a", 0)), SinkAdded("predictions"), SinkAdded("rejects"))


def receipt(number: int, attempt: int = 1) -> EpochReceipt:
    """The receipt of an epoch of two records; only epoch 3 has a reject."""
    rng = random.Random(number)
    digests = [Digest(2, rng.getrandbits(64), rng.getrandbits(64)) for _ in range(3)]
    outputs = {"predictions": digests[0], **({"rejects": Digest(1, 7, 9)} if number == 3 else {})}
    scores = {"classify": Scores(2, 1, Baselines(1, 0))}
    inputs, streams = {"source": digests[1]}, {"classify": digests[2]}
    return EpochReceipt(
        number, attempt, 2, int(number == 3), inputs, streams, outputs, scores, {"classify": number * 1000}, 0
    )


def epoch(number: int) -> Epoch:
    """An epoch of two records; epoch 0 adds the partition and both sinks."""
    return Epoch(number, {0: (2 * number, 2 * number + 2)}, _FIRST if number == 0 else (), 1000 * number)


def filled(
    folder: Path, epochs: int = EPOCHS, repeated: range = range(700, 705), segment_bytes: int = 50_000
) -> EpochLog:
    """A log of several small segments; some epochs were processed twice."""
    log = EpochLog(folder, segment_bytes=segment_bytes)
    for number in range(epochs):
        log.cut(epoch(number))
        log.receipt(receipt(number))
        if number == repeated.stop:
            for again in repeated:
                log.receipt(receipt(again, 2))
        log.commit(number)
    return log


def compact(log: EpochLog, settled: int = EPOCHS, boundaries: frozenset[int] = frozenset({500, 1234})) -> None:
    """Compact the segments in which all epochs are settled; no merged receipt crosses a boundary."""
    for _ in log.compact(settled, boundaries):
        pass

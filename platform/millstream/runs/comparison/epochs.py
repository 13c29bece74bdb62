"""Two epoch logs side by side: the first epoch that differs, and accuracy over the records that both have read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from millstream.arrays import Array
from millstream.log.epochs import Epoch, EpochReader, EpochReceipt, PartitionTable, Scores

__all__ = ["AccuracyWindow", "FirstDifference", "accuracy_windows", "first_difference"]

_WINDOWS = 20
"""The most windows of records."""


@dataclass(frozen=True)
class FirstDifference:
    """The first epoch that differs: its `cuts`, or else the records that steps made, or rows, named in `what`."""

    epoch: int
    what: str


@dataclass(frozen=True)
class AccuracyWindow:
    """The accuracy of each run over records of the logs: those at [start, stop) in the order of the cuts."""

    start: int
    stop: int
    accuracies: tuple[float | None, float | None]


def first_difference(first: Path, second: Path) -> tuple[int, FirstDifference | None]:
    """Compare the cuts and receipts in two epoch logs, from the later of the two bases on, up to the last receipt.

    Return the number of equal epochs too.

    Receipts of epochs long ago are merged: a difference in them is reported as that of the last epoch of the merged
    ones.
    """
    logs = (first, second)
    begin = 1 + max(EpochReader(each).base.epoch for each in logs)
    receipts = [_Receipts(each, begin) for each in logs]
    equal = 0
    for number, (one, other) in enumerate(zip(*(_cuts(each, begin) for each in logs), strict=False), start=begin):
        if one != other:
            return equal, FirstDifference(number, "its cut: the records differ that belong to it")
        if not all([each.reach(number) for each in receipts]):
            break
        made = [each.take(number) for each in receipts]
        if made[0] is not None and made[1] is not None and (what := _made_differs(made[0], made[1])):
            return equal, FirstDifference(number, what)
        equal += 1
    return equal, None


def accuracy_windows(first: Path, second: Path) -> list[AccuracyWindow]:
    """The accuracy of both runs in windows of the records that both have read; none if there are no labels."""
    curves = [_curve(each) for each in (first, second)]
    if any(len(curve) < 2 for curve in curves):
        return []
    low, high = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    ends = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    ends = ends[(ends >= low) & (ends <= high)]
    if len(ends) < 2:
        return []
    edges = ends[np.unique(np.linspace(0, len(ends) - 1, _WINDOWS + 1).round().astype(int))]
    rises = [np.diff([np.interp(edges, curve[:, 0], curve[:, column]) for column in (1, 2)]) for curve in curves]
    return [
        AccuracyWindow(int(start), int(stop), (_share(rises[0][:, index]), _share(rises[1][:, index])))
        for index, (start, stop) in enumerate(itertools.pairwise(edges.tolist()))
    ]


def _share(rise: Array) -> float | None:
    labelled, correct = rise.tolist()
    return correct / labelled if labelled else None


def _curve(log: Path) -> Array:
    """After each receipt, the sum of the positions, and the labelled and correct predictions so far."""
    reader = EpochReader(log)
    totals = reader.base_totals()
    seen, scores = totals.base.epoch, Scores()
    reached = {seen: sum(totals.positions.values())}
    for epoch in reader.epochs():
        totals.add_epoch(epoch)  # a run that begins with a registered model begins at the positions of the model
        reached[epoch.number] = sum(totals.positions.values())
    points = [(reached[seen], 0, 0)]
    for receipt in reader.receipts():
        if receipt.attempt == 1 and receipt.epoch > seen:
            seen, scores = receipt.last, scores + receipt.overall
            points.append((reached[seen], scores.labelled, scores.correct))
    return np.array(points, np.float64)


def _cuts(log: Path, begin: int) -> Iterator[Mapping[tuple[str, str], tuple[int, int]]]:
    """The cut of each epoch, by source and partition; a source that a fork left behind has another name."""
    reader = EpochReader(log)
    partitions = PartitionTable(reader.base_totals().partitions)
    for epoch in reader.epochs():
        partitions.follow(epoch)
        if epoch.number >= begin:
            yield _named(epoch, partitions)


def _named(epoch: Epoch, partitions: PartitionTable) -> Mapping[tuple[str, str], tuple[int, int]]:
    return {(partitions[rank].source, partitions[rank].name): span for rank, span in epoch.cut.items()}


class _Receipts:
    """The receipts of the first attempts in an epoch log, read as far as they are needed."""

    def __init__(self, log: Path, begin: int) -> None:
        self._rest = (each for each in EpochReader(log).receipts() if each.attempt == 1 and each.last >= begin)
        self._found: dict[int, EpochReceipt] = {}
        self._last = begin - 1

    def reach(self, number: int) -> bool:
        """Read until a receipt has this epoch; false if none has."""
        while self._last < number:
            receipt = next(self._rest, None)
            if receipt is None:
                return False
            self._last = max(self._last, receipt.last)
            self._found[receipt.last] = receipt
        return True

    def take(self, number: int) -> EpochReceipt | None:
        """The receipt whose last epoch is this one."""
        return self._found.pop(number, None)


def _made_differs(one: EpochReceipt, other: EpochReceipt) -> str | None:
    """The first difference between two receipts, if they are of the same epochs."""
    if one.epoch != other.epoch:
        return None
    pairs: Sequence[tuple[str, Mapping[str, object], Mapping[str, object]]] = (
        ("the records of source", one.inputs, other.inputs),
        ("the records of step", one.streams, other.streams),
        ("the rows of", one.outputs, other.outputs),
    )
    for what, ours, theirs in pairs:
        names = [name for name in [*ours, *theirs] if ours.get(name) != theirs.get(name)]
        if names:
            return f"{what} {', '.join(dict.fromkeys(names))}"
    return None

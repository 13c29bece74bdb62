"""The parts of a training whose files are missing, learned in tasks of Spark, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from millstream.history.features import Progress
from millstream.history.training_job import Training

__all__ = ["run_missing"]


def run_missing(
    training: Training,
    doing: str,
    unit: str,
    sizes: Mapping[int, int],
    function: Callable[[Iterable[list[str]]], None],
    file: Callable[[int], Path],
    earlier: Sequence[int] = (),
    parts: int | None = None,
) -> None:
    """Call a function on the parts whose files are missing; `sizes` has the number of records of each part.

    The progress counts `parts` parts, and `earlier` has the sizes of those that are learned already.
    """

    def finished() -> list[int]:
        return [part for part in sizes if file(part).exists()]

    before = set(finished())

    def report() -> None:
        found = finished()
        records = sum(earlier) + sum(sizes[part] for part in found)
        counts = (len(earlier) + len(found), parts or len(sizes), len(earlier) + len(before))
        training.watch(Progress(doing, *counts, records, unit))

    training.spark.run(function, [str(part) for part in sizes if part not in before], report)

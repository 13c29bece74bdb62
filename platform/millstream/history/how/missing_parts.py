"""The parts of a training whose files are missing, learned in tasks of Spark, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    earlier: Mapping[int, int] | None = None,
    parts: int | None = None,
) -> None:
    """Call a function on the parts whose files are missing; `sizes` has their records.

    The progress is that of `parts` parts, of which the `earlier` ones are done.
    """
    done = dict(earlier or {})

    def there() -> list[int]:
        return [part for part in sizes if file(part).exists()]

    before = set(there())

    def report() -> None:
        found = there()
        records = sum(done.values()) + sum(sizes[part] for part in found)
        counts = (len(done) + len(found), parts or len(sizes), len(done) + len(before))
        training.watch(Progress(doing, *counts, records, unit))

    training.spark.run(function, [str(part) for part in sizes if part not in before], report)

"""The cells of a result table: the mean results over the seeds of each combination of the other factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.study.trial import EXACTLY_ONCE

__all__ = ["Cell", "cells_of"]

_FACTORS = (
    "stream",
    "learner",
    "treatment",
    "treatment_config",
    "failures",
    "span",
    "placement",
    "topic",
    "between_first",
    "between_last",
    "checkpoint_every",
    "commit_every",
)


@dataclass(frozen=True)
class Cell:
    """The seeds of one combination of factors. Differences are to the exactly-once trials of the same seeds."""

    factors: dict[str, Any]
    seeds: int
    holdout_accuracy: float
    accuracy_difference: float
    labels_changed: float
    share_bias: float
    """The root mean square over labels and seeds."""


def cells_of(table: pa.Table) -> Iterator[Cell]:
    """Yield the cells of a result table, in its order."""
    columns = {name: table[name].to_pylist() for name in (*_FACTORS, "seed", "holdout_accuracy", "labels_changed")}
    bias = np.array(table["share_bias"].to_pylist()).reshape(table.num_rows, -1)
    groups: dict[tuple[Any, ...], list[int]] = {}
    once = {}
    for row, factors in enumerate(zip(*(columns[name] for name in _FACTORS), strict=True)):
        groups.setdefault(factors, []).append(row)
        if columns["treatment"][row] == EXACTLY_ONCE:
            once[columns["stream"][row], columns["learner"][row], columns["seed"][row]] = row
    accuracy, changed = np.array(columns["holdout_accuracy"]), np.array(columns["labels_changed"])
    for factors, rows in groups.items():
        paired = [once[columns["stream"][row], columns["learner"][row], columns["seed"][row]] for row in rows]
        yield Cell(
            dict(zip(_FACTORS, factors, strict=True)),
            len(rows),
            float(accuracy[rows].mean()),
            float((accuracy[rows] - accuracy[paired]).mean()),
            float(changed[rows].mean()),
            float(np.sqrt(np.square(bias[rows]).mean())),
        )

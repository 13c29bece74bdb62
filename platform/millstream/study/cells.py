"""The cells of a result table: the mean results over the seeds of each combination of the other factors."""

from __future__ import annotations

import json
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

    @property
    def treatment(self) -> str:
        """The treatment with its options, in words."""
        options = json.loads(self.factors["treatment_config"]).items()
        return " ".join([self.factors["treatment"], *(f"{name}={_plain(value)}" for name, value in options)])

    @property
    def failures(self) -> str:
        """The failures in words: their number and span, and their place if it is not random."""
        factors = self.factors
        if not factors["failures"]:
            return "none"
        words = [f"{factors['failures']} x {factors['span']}"]
        if factors["placement"] != "random":
            words.append(factors["topic"] or factors["placement"])
        if (part := (factors["between_first"], factors["between_last"])) != (0, 1):
            words.append("in {:g}-{:g}".format(*part))
        every = factors["checkpoint_every"], factors["commit_every"]
        if every != (1, 1):
            words.append("every {}/{}".format(*every))
        return " ".join(words)


def _plain(value: Any) -> str:
    return "end" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


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

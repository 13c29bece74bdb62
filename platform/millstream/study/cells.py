"""The cells of a result table: the results of each combination of factors over its seeds, with intervals and verdicts.

The family of a study is all its cells but the exactly-once ones; verdicts are adjusted for its size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.study.statistics import (
    Interval,
    Verdict,
    compare_family,
    mean_interval,
    noise_band,
    paired_differences,
)
from millstream.study.trial import EXACTLY_ONCE

__all__ = ["Cell", "cells_of", "cells_table"]

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
_INTERLEAVED = "interleaved"
_HEADS = {"interval": "accuracy_difference", "first_interval": "first_difference", "all_interval": "all_difference"}
"""The columns to which intervals belong."""


@dataclass(frozen=True)
class Cell:
    """The seeds of one combination of factors. Differences are to the exactly-once trials of the same seeds.

    Accuracies, shares and differences of them are shares of 1. None: there is one seed, or the value does not exist.
    """

    factors: dict[str, Any]
    seeds: int
    affected: float
    """The records that are repeated or lost, in the output or in the state, over those of the stream."""
    holdout_accuracy: float
    accuracy_difference: float
    interval: Interval | None
    """The 95 % t-interval of the accuracy difference."""
    margin: float | None
    adjusted_p: float | None
    verdict: Verdict | None
    accuracy_noise: Interval | None
    """The noise band of the accuracy difference: that of one more interleaved trial of the stream and learner."""
    labels_changed: float
    changed_noise: Interval | None
    """The noise band of `labels_changed`."""
    first_difference: float
    """The difference of prequential accuracy on first deliveries."""
    first_interval: Interval | None
    all_difference: float
    """The difference of prequential accuracy on all deliveries, repeats included."""
    all_interval: Interval | None
    shorter_difference: float | None
    """The accuracy difference of exactly-once trials without as many of their last records as the state lacks."""
    share_bias: float
    """The root mean square over labels and seeds."""
    predicted_share_bias: float
    """The same of the predicted labels."""
    closed_form_share_bias: float | None
    deff: float | None
    """The burstiness of the streams at the span, over labels and seeds; labels weigh as in the variance of a share."""
    flips: float
    """The mean number of labels that are popular in only one of the pair's two outputs."""
    closed_form_flips: float | None

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


def cells_of(table: pa.Table, margins: Mapping[str, float]) -> list[Cell]:
    """Return the cells of a result table, in its order; `margins` by stream are those of the equivalence tests."""
    rows = _Rows(table)
    differences = {str(number): rows.differences("holdout_accuracy", found) for number, found in rows.family()}
    streams = {str(number): rows.columns["stream"][found[0]] for number, found in rows.family()}
    known = {number: margins[stream] for number, stream in streams.items() if stream in margins}
    resolution = 1 / max(rows.columns["holdout"], default=1)
    judged = {cell.name: cell for cell in compare_family(differences, known, resolution=resolution)}

    def band(values: Array | None) -> Interval | None:
        return None if values is None else noise_band(values, resolution=resolution)

    cells = []
    for number, (factors, found) in enumerate(rows.groups.items()):
        noise = rows.noise(factors)
        verdict = judged.get(str(number))
        cells.append(
            Cell(
                factors=dict(zip(_FACTORS, factors, strict=True)),
                seeds=len(found),
                affected=rows.affected(found),
                holdout_accuracy=rows.mean("holdout_accuracy", found),
                accuracy_difference=float(rows.differences("holdout_accuracy", found).mean()),
                interval=None if verdict is None else verdict.interval,
                margin=margins.get(rows.columns["stream"][found[0]]),
                adjusted_p=None if verdict is None else verdict.adjusted,
                verdict=None if verdict is None else verdict.verdict,
                accuracy_noise=band(None if noise is None else rows.differences("holdout_accuracy", noise)),
                labels_changed=rows.mean("labels_changed", found),
                changed_noise=band(None if noise is None else rows.values("labels_changed", noise)),
                first_difference=float(rows.differences("accuracy_first", found).mean()),
                first_interval=rows.interval("accuracy_first", found),
                all_difference=float(rows.differences("accuracy_all", found).mean()),
                all_interval=rows.interval("accuracy_all", found),
                shorter_difference=rows.shorter_difference(found),
                share_bias=_rms(rows.values("share_bias", found)),
                predicted_share_bias=_rms(rows.values("predicted_share_bias", found)),
                closed_form_share_bias=rows.closed_form(found),
                deff=rows.deff(found),
                flips=rows.mean("flips", found),
                closed_form_flips=rows.known_mean("closed_form_flips", found),
            )
        )
    return cells


def cells_table(cells: Sequence[Cell]) -> pa.Table:
    """Return the cells as a flat table: the factors, then the results, intervals as columns `_low` and `_high`."""
    return pa.Table.from_pylist([_flat(cell) for cell in cells])


def _flat(cell: Cell) -> dict[str, Any]:
    flat: dict[str, Any] = dict(cell.factors)
    for name in Cell.__dataclass_fields__:
        value = getattr(cell, name)
        if name.endswith(("interval", "noise")):
            head = _HEADS.get(name, name)
            flat[f"{head}_low"], flat[f"{head}_high"] = (None, None) if value is None else (value.low, value.high)
        elif name != "factors":
            flat[name] = str(value) if isinstance(value, Verdict) else value
    return flat


class _Rows:
    """The rows of a result table by cell, those of a cell in the order of their seeds."""

    def __init__(self, table: pa.Table) -> None:
        self.columns = {name: table[name].to_pylist() for name in table.column_names}
        self.groups: dict[tuple[Any, ...], list[int]] = {}
        for row, factors in enumerate(zip(*(self.columns[name] for name in _FACTORS), strict=True)):
            self.groups.setdefault(factors, []).append(row)
        for rows in self.groups.values():
            rows.sort(key=self.columns["seed"].__getitem__)
        once = ((factors, rows) for factors, rows in self.groups.items() if factors[2] == EXACTLY_ONCE)
        self._pairs = {factors[:2]: rows for factors, rows in once}
        self._noise: dict[tuple[Any, ...], list[int]] = {}
        for factors, rows in self.groups.items():
            if factors[2] == _INTERLEAVED and len(rows) > 1:
                self._noise.setdefault(factors[:2], rows)

    def family(self) -> list[tuple[int, list[int]]]:
        """Return the cells that are compared, each by its number with its rows."""
        treatment = self.columns["treatment"]
        cells = enumerate(self.groups.values())
        return [(number, found) for number, found in cells if treatment[found[0]] != EXACTLY_ONCE and len(found) > 1]

    def values(self, name: str, rows: Sequence[int]) -> Array:
        return np.array([self.columns[name][row] for row in rows], np.float64)

    def mean(self, name: str, rows: Sequence[int]) -> float:
        return float(self.values(name, rows).mean())

    def known_mean(self, name: str, rows: Sequence[int]) -> float | None:
        """Return the mean; None if a row has no value."""
        return None if any(self.columns[name][row] is None for row in rows) else self.mean(name, rows)

    def differences(self, name: str, rows: Sequence[int]) -> Array:
        """Return the differences to the pairs, in the order of the seeds."""
        return paired_differences(*self._by_seed(name, rows), *self._by_seed(name, self.pairs(rows)))

    def _by_seed(self, name: str, rows: Sequence[int]) -> tuple[list[int], Array]:
        return [self.columns["seed"][row] for row in rows], self.values(name, rows)

    def pairs(self, rows: Sequence[int]) -> list[int]:
        """Return the rows of the pairs of a cell, in the order of the seeds."""
        return self._pairs[self.columns["stream"][rows[0]], self.columns["learner"][rows[0]]]

    def interval(self, name: str, rows: Sequence[int]) -> Interval | None:
        """Return the 95 % t-interval of the mean difference of a prequential accuracy to the pairs."""
        resolution = 1 / self.columns["records"][rows[0]]
        return mean_interval(self.differences(name, rows), resolution=resolution) if len(rows) > 1 else None

    def noise(self, factors: tuple[Any, ...]) -> list[int] | None:
        """Return the rows of the first interleaved cell with the stream and learner of these factors."""
        return self._noise.get(factors[:2])

    def affected(self, rows: Sequence[int]) -> float:
        output, state = (
            self.values(more, rows) + self.values(less, rows)
            for more, less in (("repeated", "lost"), ("trained_twice", "not_trained"))
        )
        return float((np.maximum(output, state) / self.values("records", rows)).mean())

    def shorter_difference(self, rows: Sequence[int]) -> float | None:
        shorter = self.known_mean("shorter_accuracy", rows)
        return None if shorter is None else shorter - self.mean("holdout_accuracy", self.pairs(rows))

    def closed_form(self, rows: Sequence[int]) -> float | None:
        known = self.columns["closed_form_share_bias"][rows[0]] is not None
        return _rms(self.values("closed_form_share_bias", rows)) if known else None

    def deff(self, rows: Sequence[int]) -> float | None:
        if self.columns["deff"][rows[0]] is None:
            return None
        shares = self.values("label_shares", self.pairs(rows))
        return float(np.average(self.values("deff", rows), weights=shares * (1 - shares)))


def _rms(values: Array) -> float:
    return float(np.sqrt(np.square(values).mean()))

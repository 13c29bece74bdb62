"""Measured effects of guarantees: accuracy from the table of a study, latency from the benchmarks.

`evidence.json` holds the measurements with the commands that made them. A learner without a row has no evidence: its
effect is unknown, not 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from millstream.guarantees.delivery import Delivery

__all__ = ["AccuracyRow", "LatencyRow", "accuracy_rows", "evidence", "evidence_text"]

_CELL = (
    "stream",
    "learner_config",
    "treatment",
    "checkpoint_every",
    "commit_every",
    "failures",
    "span",
    "placement",
    "records",
)
"""The columns of a study's table that make one cell; the trials of a cell differ by their seeds."""
_PAIR = ("stream", "learner_config", "records")
"""The columns that a cell has in common with the exactly-once trials with which it is paired."""
_SAME_DOSE = 1.1
"""Doses that differ by no more than this factor count as the same."""


@dataclass(frozen=True)
class AccuracyRow:
    """The effect of a delivery on hold-out accuracy, as a paired difference to exactly once, in percentage points.

    `dose` is the share of the records that the model was trained on twice, or lost.
    """

    learner: Mapping[str, Any]
    stream: str
    delivery: str
    dose: float
    difference: float
    half_width: float
    seeds: int


@dataclass(frozen=True)
class LatencyRow:
    """The time from a record's append until a reader of the sink sees it, in milliseconds; None: not measured."""

    engine: str
    delivery: str
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Evidence:
    """All measurements, with the commands that made them; `accuracy_command` is None until a study has been run."""

    accuracy: tuple[AccuracyRow, ...]
    accuracy_command: str | None
    latency: tuple[LatencyRow, ...]
    latency_command: str
    conditions: Mapping[str, str]

    def of_learner(self, learner: Mapping[str, Any], delivery: Delivery, dose: float) -> tuple[AccuracyRow, ...]:
        """Return, for each stream, the rows of this learner with about the smallest dose that is not below `dose`.

        A smaller dose is taken to have no larger effect, so these rows are an upper limit. No row: not measured.
        """
        nearest: dict[str, float] = {}
        found = []
        rows = [row for row in self.accuracy if row.delivery == delivery and _same_learner(row.learner, learner)]
        for row in sorted(rows, key=lambda row: row.dose):
            if row.dose >= dose and row.dose <= _SAME_DOSE * nearest.setdefault(row.stream, row.dose):
                found.append(row)
        return tuple(found)

    def latency_of(self, engine: str, delivery: Delivery) -> LatencyRow | None:
        """Return the latency of a delivery on an engine; None if it was not measured."""
        rows = [row for row in self.latency if row.engine == engine and row.delivery == delivery]
        return rows[0] if rows else None


def _same_learner(measured: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """True if two learners have the same options; features are not compared."""
    return {**measured, "features": None} == {**asked, "features": None}


@cache
def evidence() -> Evidence:
    """Return the measurements that come with Millstream.

    >>> evidence().latency_of("local", Delivery.EXACTLY_ONCE).p50_ms
    1.55
    """
    found = json.loads(files(__package__).joinpath("evidence.json").read_text())
    accuracy, latency = found["accuracy"], found["latency"]
    return Evidence(
        tuple(AccuracyRow(**row) for row in accuracy["rows"]),
        accuracy["command"],
        tuple(LatencyRow(**row) for row in latency["rows"]),
        latency["command"],
        latency["conditions"],
    )


def accuracy_rows(results: Iterable[Mapping[str, Any]]) -> list[AccuracyRow]:
    """Return one row for each cell of a study's table: learner, stream, delivery and failures at random moments.

    Each trial is paired with the exactly-once trial of the same stream, learner and seed. Simulated treatments,
    failures in one topic or in one part of the stream, and frozen models, which learn nothing, give no evidence.
    """
    from millstream.study.statistics import mean_interval, paired_differences

    controls: dict[Any, list[Mapping[str, Any]]] = {}
    cells: dict[Any, list[Mapping[str, Any]]] = {}
    for trial in results:
        if trial["treatment"] == Delivery.EXACTLY_ONCE:
            controls.setdefault(tuple(trial[name] for name in _PAIR), []).append(trial)
        elif not (trial["simulated"] or trial["trained_before"]) and _anywhere(trial):
            cells.setdefault(tuple(trial[name] for name in _CELL), []).append(trial)
    rows = []
    for found in cells.values():
        one = found[0]
        once = controls.get(tuple(one[name] for name in _PAIR), [])
        differences = 100 * paired_differences(*_accuracies(found), *_accuracies(once))
        interval = mean_interval(differences, resolution=100 / one["holdout"])
        dose = sum(trial["trained_twice"] + trial["not_trained"] for trial in found) / len(found) / one["records"]
        measured = (dose, interval.mean, interval.half_width, interval.count)
        rows.append(AccuracyRow(json.loads(one["learner_config"]), one["stream"], one["treatment"], *measured))
    return sorted(rows, key=lambda row: (str(row.learner), row.stream, row.delivery, row.dose))


def _accuracies(trials: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[float]]:
    """Return the seeds of trials, and their accuracies."""
    return [trial["seed"] for trial in trials], [trial["holdout_accuracy"] for trial in trials]


def _anywhere(trial: Mapping[str, Any]) -> bool:
    """True if the failures of a trial come at random places of the whole stream."""
    return trial["placement"] != "topic" and (trial["between_first"], trial["between_last"]) == (0, 1)


def evidence_text(rows: Sequence[AccuracyRow], command: str) -> str:
    """Return the text of `evidence.json` with these rows and the command that made them in place of its own."""
    current = json.loads(files(__package__).joinpath("evidence.json").read_text())
    accuracy = {"command": command, "rows": [asdict(row) for row in rows]}
    return json.dumps({**current, "accuracy": accuracy}, indent=2) + "\n"

"""Measured effects of guarantees: accuracy from a study, latency from the benchmarks.

`evidence.json` holds the measurements with the commands that made them. A learner without a row has no evidence: its
effect is unknown, not 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from millstream.guarantees.delivery import Delivery

__all__ = ["AccuracyRow", "LatencyRow", "evidence", "evidence_text", "read_evidence"]

_SAME_DOSE = 1.1
"""Doses that differ by no more than this factor count as the same."""


@dataclass(frozen=True)
class AccuracyRow:
    """The effect of a delivery on hold-out accuracy, as a paired difference to exactly once, in percentage points.

    `stream` names the text and the order of its records. `dose` is the share of the records that the model was trained
    on twice, or lost.
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
    return read_evidence(_text())


def read_evidence(text: str) -> Evidence:
    """Return the measurements in a text that `evidence_text` made."""
    found = json.loads(text)
    accuracy, latency = found["accuracy"], found["latency"]
    rows = [
        AccuracyRow(of["learner"], each["stream"], each["delivery"], *row)
        for of in accuracy["learners"]
        for each in of["effects"]
        for row in each["rows"]
    ]
    return Evidence(
        tuple(rows),
        accuracy["command"],
        tuple(LatencyRow(**row) for row in latency["rows"]),
        latency["command"],
        latency["conditions"],
    )


def evidence_text(rows: Sequence[AccuracyRow], command: str) -> str:
    """Return the text of `evidence.json` with these rows and the command that made them in place of its own."""
    effects: dict[str, dict[tuple[str, str], list[AccuracyRow]]] = {}
    for row in rows:
        of_learner = effects.setdefault(json.dumps(row.learner), {})
        of_learner.setdefault((row.stream, row.delivery), []).append(row)
    learners = ",\n".join(_learner_text(learner, found) for learner, found in effects.items())
    rest = json.dumps({**json.loads(_text()), "accuracy": {"command": command, "learners": []}}, indent=2)
    return rest.replace('"learners": []', f'"learners": [\n{learners}\n    ]', 1) + "\n"


def _text() -> str:
    return files(__package__).joinpath("evidence.json").read_text()


def _learner_text(learner: str, effects: Mapping[tuple[str, str], Sequence[AccuracyRow]]) -> str:
    """Return the effects on a learner as JSON, a line for each stream and delivery."""
    lines = ",\n".join(
        json.dumps({"stream": stream, "delivery": delivery, "rows": [_numbers(row) for row in rows]})
        for (stream, delivery), rows in effects.items()
    )
    return f'{{"learner": {learner}, "effects": [\n{lines}\n]}}'


def _numbers(row: AccuracyRow) -> list[float]:
    """Return dose, difference, half width and seeds, with four digits after the point of a percentage.

    The last digit is far below every interval.
    """
    return [round(row.dose, 6), round(row.difference, 4), round(row.half_width, 4), row.seeds]

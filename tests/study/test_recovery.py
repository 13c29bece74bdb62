"""The recovery after failures: bins of records since the latest failure, and the columns of a study's table."""

from __future__ import annotations

import numpy as np
import pytest
from support.studies import RunStudy, rows_of

from millstream.study.recovery import RECOVERY_EDGES, Recovery


def test_a_record_is_in_the_bin_of_its_distance_to_the_latest_failure() -> None:
    positions = np.arange(1000)
    recovery = Recovery(positions, np.ones(1000, np.bool_), [300, 700])
    labels = np.zeros(1000, np.int64)
    pair = np.where((positions >= 300) & (positions < 410), 1, 0)  # wrong on the first 110 records after a failure
    found = recovery.columns(labels, labels, pair)
    assert found["recovery_changed"] == [0.5, 0.05, 0.0, *[None] * 6]


def test_repeats_and_records_before_the_first_failure_do_not_count() -> None:
    positions = np.concatenate([np.arange(200), np.arange(100, 300)])
    first = np.concatenate([np.ones(200, np.bool_), np.zeros(100, np.bool_), np.ones(100, np.bool_)])
    labels = np.zeros(400, np.int64)
    predicted = np.where(first & (positions >= 200), 0, 1)  # wrong everywhere else
    found = Recovery(positions, first, [200]).columns(predicted, labels, np.zeros(300, np.int64))
    assert found["recovery_accuracy"] == [0.0, *[None] * (len(RECOVERY_EDGES) - 1)]


def test_without_a_failure_there_is_no_recovery() -> None:
    zeros = np.zeros(10, np.int64)
    found = Recovery(np.arange(10), np.ones(10, np.bool_), []).columns(zeros, zeros, zeros)
    assert found == {"recovery_accuracy": None, "recovery_changed": None}


def test_the_bins_of_a_trial_add_up_to_its_prequential_difference(run: RunStudy) -> None:
    """Before the failure, after which the same records come again, all predictions are those of the pair."""
    table = run(failures=[{"span": 60, "number": 1, "between": [0, 0.1]}], learners__nb={"type": "softmax"}, seeds=1)
    [once], [twice] = (rows_of(table, treatment=name) for name in ("exactly_once", "at_least_once"))
    assert once["recovery_changed"] is None
    changed, gained = twice["recovery_changed"], twice["recovery_accuracy"]
    assert changed[0] > 0 and changed[4:] == [None] * 5
    sizes = (100, 100, 300, 40)  # the failure comes after 60 of the 600 records
    total = sum(size * gain for size, gain in zip(sizes, gained[:4], strict=True))
    assert total == pytest.approx(600 * (twice["accuracy_first"] - once["accuracy_first"])) != 0


def test_a_model_that_learns_nothing_recovers_at_once(run: RunStudy) -> None:
    table = run(data__trained_before=500, seeds=1)
    for row in rows_of(table, treatment="at_least_once"):
        assert {value for value in row["recovery_changed"] if value is not None} == {0.0}

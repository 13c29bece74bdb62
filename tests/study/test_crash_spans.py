"""The spans of a crash at a random moment, by hand for small intervals, and against runs over time."""

from __future__ import annotations

import numpy as np
import pytest
from support.crashed_runs import CrashedRun
from support.label_streams import iid

from millstream.guarantees.delivery import Delivery, Point, effects
from millstream.guarantees.explain import outcomes
from millstream.study.crash_spans import EPOCH_TIME, crash_moments, crash_spans

ALO, AMO, EO = Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE, Delivery.EXACTLY_ONCE
INTERVALS = [(1, 1), (4, 4), (1, 8), (8, 1), (3, 2)]


def test_with_every_epoch_committed_rows_repeat_while_the_checkpoint_or_the_commit_is_written() -> None:
    found = crash_spans(ALO, 1, 1, 500)
    total = sum(EPOCH_TIME.values())
    assert found.rows.lengths == found.state.lengths == (0, 500)
    assert found.rows.weights[1] == pytest.approx((EPOCH_TIME[Point.CHECKPOINT] + EPOCH_TIME[Point.COMMIT]) / total)
    assert found.state.weights[1] == pytest.approx(EPOCH_TIME[Point.COMMIT] / total)


def test_at_most_once_loses_the_epoch_between_its_commit_and_its_checkpoint() -> None:
    found = crash_spans(AMO, 1, 1, 500)
    total = sum(EPOCH_TIME.values())
    assert found.state.weights[1] == pytest.approx((EPOCH_TIME[Point.PROCESS] + EPOCH_TIME[Point.CHECKPOINT]) / total)
    assert found.rows.mean == pytest.approx(500 * (1 - (EPOCH_TIME[Point.CUT] + EPOCH_TIME[Point.COMMIT]) / total))


@pytest.mark.parametrize("intervals", INTERVALS)
@pytest.mark.parametrize("delivery", [ALO, AMO])
def test_the_longest_span_is_the_worst_effect_that_explain_reports(
    delivery: Delivery, intervals: tuple[int, int]
) -> None:
    checkpoint_every, commit_every = intervals[0], 1 if delivery is AMO else intervals[1]
    found = crash_spans(delivery, checkpoint_every, commit_every, 1)
    reported = outcomes(delivery, checkpoint_every, commit_every, ["rows"])
    assert found.state.most == max(max(each.trained_twice, each.lost) for each in reported)
    assert found.rows.most == max(max(each.rows_repeated["rows"], each.rows_missing["rows"]) for each in reported)


@pytest.mark.parametrize("intervals", INTERVALS)
@pytest.mark.parametrize("delivery", [ALO, AMO])
def test_the_mean_span_is_that_of_crashes_over_time(delivery: Delivery, intervals: tuple[int, int]) -> None:
    checkpoint_every, commit_every = intervals[0], 1 if delivery is AMO else intervals[1]
    run = CrashedRun(iid(2400, 1), delivery, checkpoint_every, commit_every, 10, EPOCH_TIME)
    rng, counted = np.random.default_rng(2), []
    for _ in range(4000):
        found = effects(delivery, checkpoint_every, commit_every, run.crashes(1, rng))
        counted.append((len(found.rows_repeated[0] | found.rows_missing[0]), len(found.trained_twice | found.lost)))
    rows, state = 10 * np.mean(counted, axis=0)
    expected = crash_spans(delivery, checkpoint_every, commit_every, 10)
    assert expected.rows.mean == pytest.approx(rows, rel=0.1)
    assert expected.state.mean == pytest.approx(state, rel=0.1, abs=0.25)


def test_a_run_that_mostly_waits_is_rarely_hit_at_work() -> None:
    busy, waiting = (crash_spans(AMO, 1, 1, 100, share).state.mean for share in (0.0, 0.9))
    assert waiting == pytest.approx(busy / 10, rel=0.01)
    due = crash_spans(ALO, 4, 4, 100, waiting=0.999).rows
    assert due.mean == pytest.approx((0 + 100 + 200 + 300) / 4, rel=0.01)


def test_long_cycles_are_sampled() -> None:
    assert len({moment.crash.epoch for moment in crash_moments(ALO, 9999, 10_000)}) <= 400
    assert crash_spans(ALO, 1000, 1000, 1).rows.mean == pytest.approx(500, rel=0.1)


def test_exactly_once_has_no_spans() -> None:
    found = crash_spans(EO, 4, 4, 500)
    assert found.rows.most == found.state.most == 0

"""Trials that are validated by real runs: SIGKILL at a random moment, and the same positions and model to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.errors import Contradiction
from millstream.guarantees.delivery import Delivery, DurableEpochs, Effects, effects_of
from millstream.study import observed_crashes
from millstream.study.observed_crashes import Observation, observe
from millstream.study.run_validation import validate_trial
from scripts.validated_trials import Case, KilledRun, killed_run, write_documents

EARLY, LATE = (0.3, 0.5), (0.99, 0.0)
"""Moments of kills. The last commit or checkpoint before the end of the source comes four epochs before a late kill."""
OFTEN = Case("often", "local", Delivery.AT_LEAST_ONCE, (1, 7), {"type": "softmax"}, [EARLY, LATE, LATE])
LOST = Case("lost", "local", Delivery.AT_MOST_ONCE, (7, 1), {"type": "naive_bayes", "half_life": 300}, [EARLY, LATE])
ONCE = Case("once", "local", Delivery.EXACTLY_ONCE, (4, 4), {"type": "complement_nb", "batch_size": 16}, [EARLY, LATE])
ON_SPARK = Case("spark", "spark", Delivery.AT_LEAST_ONCE, (1, 7), {"type": "ftrl"}, [LATE])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("killed")
    write_documents(made / "documents")
    return made


@pytest.fixture(scope="module")
def often(folder: Path) -> KilledRun:
    return killed_run(OFTEN, folder)


@pytest.fixture(scope="module")
def lost(folder: Path) -> KilledRun:
    return killed_run(LOST, folder)


def run_of(folder: Path, killed: KilledRun) -> Path:
    return folder / killed.case.name


def test_the_trial_of_a_run_that_repeats_has_its_positions_and_its_model(often: KilledRun) -> None:
    assert often.observed and often.trial.row["trained_twice"] > 0 and often.trial.row["repeated"] > 0
    assert not often.trial.differences


def test_the_trial_of_a_run_that_loses_has_its_positions_and_its_model(lost: KilledRun) -> None:
    assert lost.observed and lost.trial.row["not_trained"] > 0
    assert not lost.trial.differences


def test_the_trial_of_a_run_with_mini_batches_and_exactly_once_has_its_positions_and_its_model(folder: Path) -> None:
    found = killed_run(ONCE, folder)
    assert found.observed and not found.trial.differences
    assert found.trial.row["delivered"] == found.trial.row["records"] and not found.trial.row["trained_twice"]


@pytest.mark.spark
def test_the_trial_of_a_run_that_was_killed_on_spark_has_its_positions_and_its_model(folder: Path) -> None:
    found = killed_run(ON_SPARK, folder, last_engine="local")
    assert found.observed and found.trial.row["trained_twice"] > 0
    assert not found.trial.differences


@pytest.mark.parametrize("fact", ["checkpointed", "committed", "delivered"])
@pytest.mark.parametrize("name", ["often", "lost"])
def test_a_fact_that_is_off_by_one_epoch_is_found(
    folder: Path, name: str, fact: str, request: pytest.FixtureRequest
) -> None:
    killed: KilledRun = request.getfixturevalue(name)
    first = killed.observed[0]
    assert min(first.checkpointed, first.committed, first.sinks["predictions"][0]) > 0
    assert is_found(folder, killed, [off_by_one(first, fact), *killed.observed[1:]])


def off_by_one(seen: Observation, fact: str) -> Observation:
    """The observation with the epoch before in its place."""
    if fact == "delivered":
        return replace(seen, sinks={name: (epoch - 1, rows) for name, (epoch, rows) in seen.sinks.items()})
    values = {name: getattr(seen, name) - (name == fact) for name in ("checkpointed", "committed")}
    return replace(seen, **values)


def is_found(folder: Path, killed: KilledRun, wrong: Sequence[Observation]) -> bool:
    """True if wrong observations give another trial than the run, or none at all."""
    try:
        return bool(validate_trial(run_of(folder, killed), wrong).differences)
    except Contradiction:
        return True


@pytest.mark.parametrize("wrong", ["the commit of the epoch before", "no replay", "no second training"])
def test_a_wrong_computation_is_found(
    folder: Path, often: KilledRun, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def miscomputed(delivery: Delivery, durable: DurableEpochs) -> Effects:
        committed = durable.committed - (wrong == "the commit of the epoch before")
        found = effects_of(delivery, replace(durable, committed=committed))
        if wrong == "no replay":
            return replace(found, rows_repeated=(frozenset(),))
        return replace(found, trained_twice=frozenset()) if wrong == "no second training" else found

    monkeypatch.setattr(observed_crashes, "effects_of", miscomputed)
    assert validate_trial(run_of(folder, often), often.observed).differences


def test_a_kill_that_is_not_observed_is_found(folder: Path, lost: KilledRun) -> None:
    assert is_found(folder, lost, lost.observed[:-1])


def test_nothing_is_durable_before_the_first_start(tmp_path: Path) -> None:
    assert observe(tmp_path) == Observation()

"""A version that is behind a run, or ahead of it, comes to the run's position with every record learned once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.conditions import wait_until
from support.versions import append, last_epoch, learned, model_of, run_config, version_of

from millstream.api.run import Run
from millstream.errors import AlteredLog, Truncated
from millstream.log.epochs import EpochReader
from millstream.runs.shadow.catch_up import CatchUp
from millstream.runs.shadow.learner import Entry, Learner, LearnerSpec
from millstream.runs.shadow.messages import Refused
from millstream.runs.start import Options, start
from millstream.state.digests import state_digest
from millstream.state.model_version import ModelVersion
from millstream.state.version_store import VersionStore


@pytest.fixture
def version(tmp_path: Path) -> ModelVersion:
    """A version in `tmp_path / "version"` that has learned 40 records of each partition."""
    append(tmp_path, 40)
    start(run_config(tmp_path), Options(tmp_path / "first", follow=False))
    return version_of(tmp_path / "first", run_config(tmp_path), tmp_path / "version")


def spec(folder: Path, *, as_is: bool = False, run: str = "run") -> LearnerSpec:
    loaded = run_config(folder)
    return LearnerSpec(
        config=loaded.config,
        fields=("text", "label"),
        contexts={source.name: (folder, folder / "cache", "small") for source in loaded.config.logs},
        step="classify",
        uri="models:/news/1",
        version=folder / "version",
        epochs=folder / run / "epochs",
        as_is=as_is,
    )


def caught_up(folder: Path, *, as_is: bool = False) -> Entry:
    learner = Learner(spec(folder, as_is=as_is))
    for _ in learner.rounds():
        pass
    assert not learner.waits
    return learner.finish(last_epoch(folder / "run"), folder / "models")


def entered(folder: Path, entry: Entry) -> ModelVersion:
    return VersionStore(folder / "models").load(entry.digest)


def test_a_version_behind_the_run_learns_the_records_between_once(version: ModelVersion, tmp_path: Path) -> None:
    append(tmp_path, 210)
    start(run_config(tmp_path), Options(tmp_path / "run", follow=False))
    entry = caught_up(tmp_path)
    whole = version_of(tmp_path / "run", run_config(tmp_path), tmp_path / "whole")
    made = entered(tmp_path, entry)
    assert made.digest != version.digest
    assert entry.trained == {source: {"0": 250} for source in "abcd"}
    assert state_digest(learned(made.state)) == state_digest(learned(whole.state))


def test_a_version_ahead_of_the_run_in_some_partitions_learns_each_record_once(
    version: ModelVersion, tmp_path: Path
) -> None:
    append(tmp_path, 20)
    start(run_config(tmp_path), Options(tmp_path / "first", follow=False))
    version_of(tmp_path / "first", run_config(tmp_path), tmp_path / "version")  # up to 60 in each partition
    start(run_config(tmp_path), Options(tmp_path / "run", follow=False, records=100))
    learner = Learner(spec(tmp_path))
    assert list(learner.rounds()) and learner.learned == 0
    assert learner.waits and learner.ahead == 4 * 60 - 100
    append(tmp_path, 33)
    start(run_config(tmp_path), Options(tmp_path / "run", follow=False))
    assert [*learner.rounds()][-1] == 4 * 33
    assert learner.ahead == 0
    made = entered(tmp_path, learner.finish(last_epoch(tmp_path / "run"), tmp_path / "models"))
    whole = model_of(tmp_path / "run", run_config(tmp_path))
    assert state_digest(learned(made.state)) == state_digest(learned(whole.state))


def test_records_that_the_run_has_never_had_are_learned_too(
    version: ModelVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    append(tmp_path, 50)
    start(run_config(tmp_path), Options(tmp_path / "first", follow=False))
    newer = Run(tmp_path / "first").export("newer")
    append(tmp_path, 30)
    handed = run_config(tmp_path, model={"from": newer.uri})
    start(handed, Options(tmp_path / "run", follow=False))
    assert EpochReader(tmp_path / "run" / "epochs").totals().records == 4 * 30, "the run lacks records of the version"
    made = entered(tmp_path, caught_up(tmp_path))
    assert state_digest(learned(made.state)) == state_digest(
        learned(Run(tmp_path / "run").model().classify.version_state())
    )


def test_counting_gives_the_records_that_are_skipped_and_repeated(version: ModelVersion, tmp_path: Path) -> None:
    append(tmp_path, 60, ("a", "b"))
    start(run_config(tmp_path), Options(tmp_path / "first", follow=False))
    newer = version_of(tmp_path / "first", run_config(tmp_path), tmp_path / "version")
    append(tmp_path, 40, ("c", "d"))
    start(run_config(tmp_path), Options(tmp_path / "run", follow=False, records=200))
    entry = caught_up(tmp_path, as_is=True)
    assert entry.digest == newer.entered
    assert entry.trained == {"a": {"0": 100}, "b": {"0": 100}, "c": {"0": 40}, "d": {"0": 40}}
    positions = EpochReader(tmp_path / "run" / "epochs").totals().positions
    assert entry.skipped == positions[2] - 40 + positions[3] - 40 > 0
    assert entry.repeated == 100 - positions[0] + 100 - positions[1] > 0


def test_another_log_is_refused(version: ModelVersion, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "b")
    append(tmp_path, 50, ("b",))
    start(run_config(tmp_path), Options(tmp_path / "run", follow=False))
    with pytest.raises(AlteredLog, match="was trained on another log: b/0 up to offset 40"):
        Learner(spec(tmp_path))


def test_cuts_before_the_base_that_a_version_lacks_are_refused(version: ModelVersion, tmp_path: Path) -> None:
    append(tmp_path, 200)
    loaded = run_config(tmp_path, keep="1us")
    for records in (300, 300):
        start(loaded, Options(tmp_path / "run", follow=False, records=records))
    assert EpochReader(tmp_path / "run" / "epochs").base.epoch >= 0
    with pytest.raises(Truncated, match="and the cuts of these are gone"):
        Learner(spec(tmp_path))


def test_a_process_catches_up_and_ends_with_the_run(version: ModelVersion, tmp_path: Path) -> None:
    append(tmp_path, 210)
    start(run_config(tmp_path), Options(tmp_path / "run", follow=False))
    catch_up = CatchUp(spec(tmp_path))
    try:
        wait_until(lambda: catch_up.poll() is None and catch_up.is_close, "the end of the log")
        entry = catch_up.finish(last_epoch(tmp_path / "run"), tmp_path / "models")
        assert isinstance(entry, Entry)
        assert entry.digest == caught_up(tmp_path).digest
    finally:
        catch_up.close()


def test_a_killed_process_is_said_to_have_ended(version: ModelVersion, tmp_path: Path) -> None:
    append(tmp_path, 10)
    start(run_config(tmp_path), Options(tmp_path / "run", follow=False))
    catch_up = CatchUp(spec(tmp_path))
    try:
        catch_up._process.kill()
        wait_until(lambda: catch_up.poll() is not None, "the end of the process")
        refused = catch_up.finish(last_epoch(tmp_path / "run"), tmp_path / "models")
        assert isinstance(refused, Refused) and refused.again and "has ended" in refused.reason
    finally:
        catch_up.close()

"""A registered version beside a running model learns what a run that begins with the version learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.histories import state_in
from support.planned_events import PlannedEvents, entering

from millstream.config.load import Loaded, read_config
from millstream.errors import Contradiction
from millstream.guarantees.validation import checked_graph
from millstream.log.epochs import EpochReader, Event, Swap
from millstream.runs.directory import RunDirectory
from millstream.runs.fork import fork_run
from millstream.runs.model_versions import newest_artefact
from millstream.runs.start import Options, start
from millstream.runs.version_checks import check_version
from millstream.state.model_version import ModelVersion

RECORDS, HALF, EPOCH = 1500, 700, 100
SHADOW = {"shadow": {"from": "models:/news@challenger"}}


@pytest.fixture
def loaded(config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that returns the config with options of the last step, the one that classifies, and of the whole."""
    file, labels = tmp_path / "news.jsonl", ("sport", "film", "politics")
    rows = ({"text": f"{labels[i % 3]} word{i % 17} about {i}", "label": labels[i % 3]} for i in range(RECORDS))
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.chdir(tmp_path)

    def make(features: dict[str, Any] | None = None, whole: dict[str, Any] | None = None, **options: Any) -> Loaded:
        *before, classify = (dict(step) for step in config["pipeline"]["steps"])
        before[-1] |= features or {}
        changed = {
            **config,
            "source": {"type": "files", "path": str(file)},
            "pipeline": {"steps": [*before, {**classify, **options}]},
            "engine": {"type": "local", "epoch": {"max_records": EPOCH}},
            **(whole or {}),
        }
        return read_config(changed, tmp_path, "small.yaml")

    return make


@pytest.fixture
def version(loaded: Any, tmp_path: Path) -> ModelVersion:
    """A version that has learned the first records, with another type of model than the config's."""
    other = loaded(model={"type": "multinomial_nb", "alpha": 0.25, "batch_size": 64})
    start(other, Options(tmp_path / "first", records=HALF))
    return newest_artefact(RunDirectory(tmp_path / "first"), other).version


def planned(version: ModelVersion, events: dict[int, list[Event]]) -> Any:
    return lambda store: PlannedEvents(events, [version], store)


def step_of(loaded: Loaded) -> str:
    return str(loaded.config.steps[-1].name)


def test_a_shadow_learns_each_record_once_as_a_run_that_begins_with_its_version(
    loaded: Any, version: ModelVersion, tmp_path: Path
) -> None:
    step = step_of(loaded())
    whole = loaded(model=version.model)
    start(whole, Options(tmp_path / "whole"))
    entry = planned(version, {HALF // EPOCH: [entering(f"{step}_shadow", version)]})
    start(loaded(**SHADOW), Options(tmp_path / "beside"), inbox=entry)
    directly = planned(version, {HALF // EPOCH: [entering(step, version)]})
    start(loaded(), Options(tmp_path / "directly"), inbox=directly)
    shadow, champion = state_digests(tmp_path / "beside", f"{step}_shadow"), state_digests(tmp_path / "directly", step)
    assert shadow == champion
    found = newest_artefact(RunDirectory(tmp_path / "beside"), loaded(**SHADOW), f"{step}_shadow").version
    assert found.digest == newest_artefact(RunDirectory(tmp_path / "whole"), whole).version.digest


def state_digests(run: Path, step: str) -> str:
    """The digest of a step's state, whatever the name of the step is."""
    from millstream.state.checkpoints import read_newest
    from millstream.state.digests import state_digest

    found = read_newest(run, lambda _, states: str(state_digest(states[step])))
    assert found is not None
    return found


def test_a_shadow_is_added_at_a_later_start_and_stays_while_an_epoch_needs_it(
    loaded: Any, version: ModelVersion, tmp_path: Path
) -> None:
    step, run = step_of(loaded()), tmp_path / "run"
    start(loaded(), Options(run, records=200))
    events: dict[int, list[Event]] = {3: [entering(f"{step}_shadow", version)], 6: [Swap(step, "models:/news/1")]}
    start(loaded(**SHADOW), Options(run, records=300), inbox=planned(version, {3: events[3]}))
    with pytest.raises(Contradiction, match=f"epoch 3 of this run needs the shadow of the step '{step}'"):
        start(loaded(), Options(run))
    changed = {"shadow": {"from": "models:/news/7", "promote": {"better": 1.5, "over": 200}}}
    start(loaded(**changed), Options(run), inbox=planned(version, {6: events[6]}))
    inside = planned(version, events)
    start(loaded(**SHADOW), Options(tmp_path / "at-once"), inbox=inside)
    assert state_in(run, step) == state_in(tmp_path / "at-once", step)
    trials = EpochReader(run / "epochs").totals().models
    assert trials.shadows == {step: 6} and not trials.trials


def test_the_totals_count_both_models_from_the_epoch_on_with_which_the_shadow_entered(
    loaded: Any, version: ModelVersion, tmp_path: Path
) -> None:
    step, run = step_of(loaded()), tmp_path / "run"
    entry = planned(version, {4: [entering(f"{step}_shadow", version)]})
    start(loaded(**SHADOW), Options(run), inbox=entry)
    totals = EpochReader(run / "epochs").totals()
    trial = totals.models.trials[step]
    assert trial.since == 4
    assert trial.champion.labelled == trial.shadow.labelled == RECORDS - 4 * EPOCH
    assert trial.shadow == totals.scores[f"{step}_shadow"]
    assert totals.overall == totals.scores[step]
    assert totals == type(totals).from_header(totals.header())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": {"dimensions": 2048}}, "its features mean something else here"),
        ({"label": "text"}, "has learned the labels of the field 'label', and step '.*_shadow' has `label: text`"),
    ],
)
def test_a_version_that_cannot_enter_is_refused(
    loaded: Any, version: ModelVersion, changes: dict[str, Any], message: str
) -> None:
    other = loaded(**changes, **SHADOW)
    with pytest.raises(Contradiction, match=message):
        check_version(other, checked_graph(other), f"{step_of(loaded())}_shadow", "models:/news/1", version)
    same = loaded(**SHADOW)
    check_version(same, checked_graph(same), f"{step_of(loaded())}_shadow", "models:/news/1", version)


def test_a_shadow_that_has_a_model_stays_in_the_config_also_when_the_base_is_past_its_epoch(
    loaded: Any, version: ModelVersion, tmp_path: Path
) -> None:
    """Without the shadow its model would be gone, and a swap would give the step nothing."""
    step, run, now = step_of(loaded()), tmp_path / "run", {"keep": "1us"}
    entry = planned(version, {3: [entering(f"{step}_shadow", version)]})
    start(loaded(**SHADOW, whole=now), Options(run, records=600), inbox=entry)
    start(loaded(**SHADOW, whole=now), Options(run, records=300))
    assert EpochReader(run / "epochs").totals().base.epoch >= 3
    with pytest.raises(Contradiction, match=rf"the shadow of the step '{step}' has models:/news/1 since epoch 3"):
        start(loaded(whole=now), Options(run))
    fork_run(RunDirectory.find(run), loaded(whole=now), tmp_path / "without")
    start(loaded(whole=now), Options(tmp_path / "without"))
    assert not EpochReader(tmp_path / "without" / "epochs").totals().models.versions


def test_a_fork_without_a_shadow_that_its_epochs_need_is_refused_before_it_is_made(
    loaded: Any, version: ModelVersion, tmp_path: Path
) -> None:
    step = step_of(loaded())
    events: dict[int, list[Event]] = {3: [entering(f"{step}_shadow", version)], 6: [Swap(step, "models:/news/1")]}
    start(loaded(**SHADOW), Options(tmp_path / "run"), inbox=planned(version, events))
    old, fork = RunDirectory.find(tmp_path / "run"), tmp_path / "fork"
    with pytest.raises(Contradiction, match=f"epoch 3 of this run needs the shadow of the step '{step}'.*or fork at a"):
        fork_run(old, loaded(), fork, at=4, from_start=True)
    fork_run(old, loaded(), fork, at=2, from_start=True)
    start(loaded(), Options(fork))
    start(loaded(), Options(tmp_path / "never"))
    assert state_in(fork, step) == state_in(tmp_path / "never", step)


def test_a_fork_of_a_run_that_began_with_a_version_may_change_the_options_of_its_model(
    loaded: Any, version: ModelVersion, tmp_path: Path
) -> None:
    entry = planned(version, {0: [entering(step_of(loaded()), version)]})
    same = loaded(model=version.model)
    start(same, Options(tmp_path / "run", records=300), inbox=entry)
    changed = loaded(model={**version.model, "alpha": 4.0})
    assert all(step.kept for step in fork_run(RunDirectory.find(tmp_path / "run"), changed, tmp_path / "fork").steps)
    start(changed, Options(tmp_path / "fork"))
    found = newest_artefact(RunDirectory(tmp_path / "fork"), changed).version
    assert found.model["alpha"] == 4.0


def test_a_fork_refuses_other_options_of_a_model_that_came_with_options_of_its_own(
    loaded: Any, version: ModelVersion, tmp_path: Path
) -> None:
    """They would change nothing: the options are in the state."""
    entry = planned(version, {0: [entering(step_of(loaded()), version)]})
    other = loaded(model={**version.model, "alpha": 0.5})
    start(other, Options(tmp_path / "run", records=300), inbox=entry)
    changed = loaded(model={**version.model, "alpha": 4.0})
    with pytest.raises(Contradiction, match=r"cannot change them: model.alpha was 0.5, is 4.0; leave"):
        fork_run(RunDirectory.find(tmp_path / "run"), changed, tmp_path / "fork")

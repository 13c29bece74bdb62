"""A study file is refused with the line and the key of every problem."""

from __future__ import annotations

from typing import Any

import pytest
from support.studies import WriteStudy

from millstream.config.document import Setting
from millstream.errors import ConfigError
from millstream.study.grid import groups_of
from millstream.study.study_file import load_study

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"treatment": ["late"]}, "treatment: unknown key; did you mean `treatments`?"),
    ({"streams__iid": {"order": "sorted"}}, "is not allowed; one of iid, blocks, natural, drift, swap, tail"),
    ({"streams__iid": {"order": "iid", "size": 10}}, "streams.iid.size: unknown key"),
    ({"treatments": ["twice"]}, "is not allowed; one of exactly_once, at_least_once, at_most_once, late"),
    ({"treatments": [{"type": "output_only"}]}, "treatments.0.of: required"),
    ({"learners__nb": {"type": "naive_base"}}, "learners.nb.type: "),
    ({"learners__nb": {"type": "naive_bayes", "alfa": 1}}, "did you mean `alpha`?"),
    ({"streams": {}}, "streams: empty, so the study has no trials; name at least one"),
    ({"learners": {}}, "learners: empty"),
    ({"failures": []}, "failures: empty"),
    ({"treatments": []}, "treatments: empty"),
    ({"seeds": []}, "seeds: empty"),
    ({"seeds": 0}, "seeds: empty"),
    ({"seeds": -3}, "seeds: -3 is not allowed; at least 0"),
    ({"seeds": 10**9}, "seeds: 1000000000 is not allowed; at most 10000"),
    ({"seeds": [-1, 2]}, "seeds.0: -1 is not allowed; at least 0"),
    ({"seeds": [0, 10**23]}, "is not allowed; at most 4294967295"),
    ({"checkpoint_every": []}, "checkpoint_every: empty"),
    ({"seeds": [4, 5, 4]}, "seeds: 4 is there twice; a repeated value would count its trials twice"),
    ({"commit_every": [1, 1]}, "commit_every: 1 is there twice"),
    ({"treatments": ["late", {"type": "late"}]}, "treatments.1: this treatment is there twice"),
    ({"treatments": [{"type": "late", "learners": ["nn"]}]}, "there is no learner 'nn' in this study; there are nb"),
    ({"fewer_seeds": {"river": 2}}, "fewer_seeds.river: there is no 'river' in this study; there are nb"),
    ({"margins": {"block": 0.1}}, "margins.block: there is no 'block' in this study; there are iid"),
    ({"commit_every": [10]}, "at_most_once commits every epoch; put 1 among the values of commit_every"),
    ({"failures": [{"span": 60}]}, "give either the `number` of failures or their `share`"),
    ({"failures": [{"span": 60, "number": 1, "topic": "sport"}]}, "belong together"),
    ({"failures": [{"span": 60, "number": 1, "between": [0.5, 0.5]}]}, "give two shares, the lower one first"),
    ({"failures": [{"span": 601, "number": 1}]}, "1 failure of 601 records needs as many, and there are 600"),
    ({"failures": [{"span": 60, "number": 11}]}, "11 failures of 60 records each need 660 records, and there are 600"),
    ({"failures": [{"span": 60, "number": 1, "between": [0.9, 0.95]}]}, "there are 30 in that part of the stream"),
    (
        {"data__trained_before": 100, "treatments": ["stale_state"]},
        "stale_state changes what a model learns, and with `trained_before` it learns nothing from the stream",
    ),
    ({"checkpoint_every": [7]}, "a span of 60 records cannot be divided into the 7 epochs of an interval"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=lambda part: str(part)[:60])
def test_a_wrong_study_is_refused_with_its_line(write: WriteStudy, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_study(write(**changes))
    assert message in str(refused.value)
    assert all(":" in problem.where for problem in refused.value.problems)


def test_all_problems_are_reported_together(write: WriteStudy) -> None:
    with pytest.raises(ConfigError) as refused:
        load_study(write(seeds=[1, 1], learners={}, failures=[{"span": 700, "number": 1}]))
    assert [problem.key for problem in refused.value.problems] == ["learners", "failures.0", "seeds"]


def test_an_empty_grid_is_one_problem_and_not_one_of_the_names_that_it_lacks(write: WriteStudy) -> None:
    with pytest.raises(ConfigError) as refused:
        load_study(write(streams={}, margins={"iid": 0.1}))
    assert [problem.key for problem in refused.value.problems] == ["streams"]


def test_the_quick_size_is_checked_too(write: WriteStudy) -> None:
    study = write(quick={"records": 100}, failures=[{"span": 60, "number": 2}])
    assert load_study(study).study.data.records == 600
    with pytest.raises(ConfigError, match="need 120 records, and there are 100"):
        load_study(study, quick=True)


def test_a_value_of_set_wins_over_the_quick_size(write: WriteStudy) -> None:
    path = write(quick={"records": 300, "holdout": 50, "seeds": 1})

    def sizes(*sets: Setting) -> tuple[int, int, int]:
        study = load_study(path, quick=True, sets=sets).study
        return study.data.records, study.data.holdout, len(study.seed_list)

    assert sizes() == (300, 50, 1)
    assert sizes("seeds=3", ("data.records", 400)) == (400, 50, 3)
    assert sizes(("data.holdout", 100)) == (300, 100, 1)


def test_a_study_without_a_quick_size_is_refused_at_quick_size(write: WriteStudy) -> None:
    path = write(quick={})
    assert load_study(path).study.data.records == 600
    with pytest.raises(ConfigError, match="quick: the study names no smaller size"):
        load_study(path, quick=True)


def test_the_quick_size_takes_the_first_seeds_and_keeps_shares(write: WriteStudy) -> None:
    path = write(seeds=[7, 8, 9], quick={"records": 300, "seeds": 2}, failures=[{"span": 30, "share": 0.2}])
    full, quick = load_study(path).study, load_study(path, quick=True).study
    assert (full.seed_list, quick.seed_list) == ([7, 8, 9], [7, 8])
    assert [study.failures[0].count(study.data.records) for study in (full, quick)] == [4, 2]


def test_treatments_for_which_nothing_fails_need_no_failures(write: WriteStudy) -> None:
    study = load_study(write(failures=[], treatments=["interleaved"], seeds=1)).study
    assert [trial.treatment for group in groups_of(study) for trial, _ in group.trials(study)] == [
        "exactly_once",
        "interleaved",
    ]


def test_a_value_is_changed_by_its_key_path(write: WriteStudy) -> None:
    assert load_study(write(), sets=["data.records=300"]).study.data.records == 300


def test_levels_that_are_the_same_at_quick_size_are_one_trial(write: WriteStudy) -> None:
    path = write(quick={"records": 100}, failures=[{"span": 60, "share": 0.1}, {"span": 60, "share": 0.3}], seeds=1)
    for quick, trials in ((False, 1 + 2 * 2), (True, 1 + 2)):
        study = load_study(path, quick=quick).study
        assert sum(len(group.trials(study)) for group in groups_of(study)) == trials


def test_every_trial_of_a_grid_has_its_own_key(write: WriteStudy) -> None:
    study = load_study(
        write(
            streams={"iid": {"order": "iid"}, "blocks": {"order": "blocks", "size": 100}},
            learners={"nb": {"type": "naive_bayes"}, "softmax": {"type": "softmax"}},
            failures=[{"span": 60, "number": 2}, {"span": 60, "share": 0.4}, {"span": 20, "number": 2}],
            treatments=["at_least_once", "at_most_once", "late", {"type": "late", "delay": 10}, "interleaved"],
            checkpoint_every=[1, 10],
            commit_every=[1, 10],
            fewer_seeds={"softmax": 1},
        )
    ).study
    trials = [trial for group in groups_of(study) for trial, _ in group.trials(study)]
    assert len({trial.key for trial in trials}) == len(trials)
    # Three of five treatments are tried with 4 pairs of factors; at_most_once commits every epoch.
    assert len(trials) == 2 * 3 * (1 + 3 * (3 * 4 + 2) + 1)
    assert sum(trial.treatment == "exactly_once" for trial in trials) == 6
    assert {trial.simulated for trial in trials if trial.treatment in ("at_least_once", "at_most_once")} == {False}
    assert {trial.simulated for trial in trials if trial.treatment in ("late", "interleaved")} == {True}

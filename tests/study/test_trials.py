"""The trials of a study: their metrics, their pairs, and the table that they become."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.studies import TIMES, RunStudy, WriteStudy, rows_of

from millstream.errors import ConfigError, Contradiction
from millstream.study.comparison import run_study
from millstream.study.study_file import load_study

ALL = [
    "at_least_once",
    "at_most_once",
    {"type": "late"},
    {"type": "late", "delay": 50},
    "reordered",
    {"type": "output_only", "of": "at_least_once"},
    {"type": "state_only", "of": "at_least_once"},
    {"type": "output_only", "of": "at_most_once"},
    {"type": "state_only", "of": "at_most_once"},
    "interleaved",
    "stale_state",
    {"type": "stale_state", "age": 120, "part": 0.5},
]


def test_every_treatment_is_tried_on_every_stream(run: RunStudy) -> None:
    table = run(
        treatments=[*ALL, {"type": "lost_optimiser", "learners": ["softmax"]}],
        learners={"nb": {"type": "naive_bayes"}, "softmax": {"type": "softmax"}},
        streams={name: {"order": name} for name in ("iid", "natural", "drift", "swap")}
        | {"blocks": {"order": "blocks", "size": 60}},
        seeds=1,
    )
    assert table.num_rows == 5 * (1 + len(ALL) + 1 + len(ALL) + 1)
    for row in table.to_pylist():
        assert 0.3 < row["holdout_accuracy"] <= 1 and 0 < row["holdout_log_loss"] < 3, row
        assert row["delivered"] == row["records"] + row["repeated"] - row["lost"]
        assert sum(row["share_bias"]) == pytest.approx(0, abs=1e-12)
        assert sum(row["label_shares"]) == pytest.approx(1)


def test_the_columns_count_what_reached_output_and_state(run: RunStudy) -> None:
    table = run(treatments=ALL, seeds=1)
    counted = {
        (row["treatment"], json.loads(row["treatment_config"]).get("of")): tuple(
            row[name] for name in ("repeated", "lost", "trained_twice", "not_trained")
        )
        for row in table.to_pylist()
    }
    assert counted["exactly_once", None] == counted["interleaved", None] == counted["stale_state", None] == (0, 0, 0, 0)
    assert counted["at_least_once", None] == counted["late", None] == counted["reordered", None] == (120, 0, 120, 0)
    assert counted["at_most_once", None] == (0, 120, 0, 120)
    assert counted["output_only", "at_least_once"] == (120, 0, 0, 0)
    assert counted["state_only", "at_least_once"] == (0, 0, 120, 0)
    assert counted["output_only", "at_most_once"] == (0, 120, 0, 0)
    assert counted["state_only", "at_most_once"] == (0, 0, 0, 120)


def test_an_effect_on_the_output_alone_changes_no_model_and_one_on_the_state_no_share(run: RunStudy) -> None:
    table = run(treatments=ALL)
    for row in rows_of(table, treatment="output_only"):
        assert row["labels_changed"] == 0 and any(row["share_bias"])
    for row in rows_of(table, treatment="state_only"):
        assert row["labels_changed"] > 0 and not any(row["share_bias"])
    for row in rows_of(table, treatment="exactly_once"):
        assert row["labels_changed"] == 0 and not any(row["share_bias"] + row["predicted_share_bias"])


def test_a_replay_from_a_checkpoint_repeats_the_predictions_of_the_first_time(run: RunStudy) -> None:
    table = run(treatments=[{"type": "output_only", "of": "at_least_once"}], learners__nb={"type": "softmax"})
    for seed in range(2):
        once, replayed = (rows_of(table, seed=seed, treatment=name)[0] for name in ("exactly_once", "output_only"))
        assert replayed["accuracy_first"] == once["accuracy_first"] != replayed["accuracy_all"]


def test_repeated_records_do_not_flatter_the_accuracy_on_first_deliveries(run: RunStudy) -> None:
    table = run(failures=[{"span": 60, "number": 8}], seeds=3)
    for row in rows_of(table, treatment="at_least_once"):
        assert row["accuracy_all"] > row["accuracy_first"]
    for row in rows_of(table, treatment="at_most_once"):
        assert row["accuracy_all"] == row["accuracy_first"]


def test_the_share_bias_is_that_of_the_counts(run: RunStudy) -> None:
    table = run(failures=[{"span": 60, "number": 1, "between": [0.5, 0.6]}], seeds=1)
    [once], [twice], [lost] = (
        rows_of(table, treatment=name) for name in ("exactly_once", "at_least_once", "at_most_once")
    )
    counts = {row["treatment"]: np.array(row["label_shares"]) * row["delivered"] for row in (once, twice, lost)}
    in_span = counts["at_least_once"] - counts["exactly_once"]
    assert in_span.sum() == pytest.approx(60)
    assert counts["exactly_once"] - counts["at_most_once"] == pytest.approx(in_span)


def test_naive_bayes_without_forgetting_does_not_depend_on_the_order(run: RunStudy) -> None:
    table = run(treatments=["interleaved", "late", "reordered", "at_least_once"], seeds=1)
    losses = {row["treatment"]: row["holdout_log_loss"] for row in table.to_pylist()}
    assert losses["interleaved"] == pytest.approx(losses["exactly_once"])
    assert losses["late"] == pytest.approx(losses["at_least_once"]) == losses["reordered"]
    assert losses["late"] != pytest.approx(losses["exactly_once"])


def test_a_state_that_returns_as_a_whole_forgets_its_span(run: RunStudy) -> None:
    table = run(treatments=["stale_state", "at_most_once"], failures=[{"span": 60, "number": 1}])
    for seed in range(2):
        stale, lost = (rows_of(table, seed=seed, treatment=name)[0] for name in ("stale_state", "at_most_once"))
        assert stale["holdout_log_loss"] == pytest.approx(lost["holdout_log_loss"])


def test_a_frozen_model_predicts_and_learns_nothing_from_the_stream(run: RunStudy) -> None:
    """The share of a predicted label moves by the arithmetic of counts alone."""
    table = run(
        data__trained_before=500,
        streams={"tail": {"order": "tail", "label": "sport", "share": 0.2}},
        failures=[{"span": 60, "number": 2, "between": [0.0, 0.8]}],
        treatments=["at_least_once", "at_most_once", "late"],
    )
    sport = json.loads(table.schema.metadata[b"labels"]).index("sport")
    assert len({row["holdout_accuracy"] for row in rows_of(table, seed=0)}) == 1
    for row in table.to_pylist():
        assert row["labels_changed"] == 0
        lost, repeated = row["lost"], row["repeated"]
        assert row["label_shares"][sport] == pytest.approx(0.2 * 600 / (600 + repeated - lost))


def test_records_that_a_restart_makes_the_state_forget_are_in_the_output(run: RunStudy) -> None:
    """With a checkpoint every ten epochs, at_most_once loses the epochs since then; only the last has no row."""
    table = run(checkpoint_every=[10], seeds=1)
    [lost] = rows_of(table, treatment="at_most_once")
    assert (lost["lost"], lost["not_trained"]) == (2 * 6, 2 * 60)


def test_finished_trials_are_not_run_again_and_new_levels_are_added(run: RunStudy, tmp_path: Path) -> None:
    first = run()
    parts = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/parts").iterdir()}
    assert run().equals(first)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out/parts").iterdir()} == parts
    more = run(seeds=3, treatments=["at_least_once", "at_most_once", "late"])
    assert more.num_rows == 3 * 4
    same = [row for row in more.to_pylist() if row["key"] in set(first["key"].to_pylist())]
    assert same == first.to_pylist()
    whole = run("another", seeds=3, treatments=["at_least_once", "at_most_once", "late"])
    assert more.drop_columns(TIMES).equals(whole.drop_columns(TIMES))


def test_files_that_killed_commands_left_are_removed_and_no_others(run: RunStudy, tmp_path: Path) -> None:
    run(seeds=1)
    out = tmp_path / "out"
    left = ("parts/ab12.77.tmp", "trials.parquet.77.tmp", "collection.arrow.tmp", "study.json.77.tmp")
    for name in (*left, "notes.tmp"):
        (out / name).write_text("a part")
    run_study(load_study(tmp_path / "small.yaml"), out)
    assert not [name for name in left if (out / name).exists()] and (out / "notes.tmp").exists()


def test_a_table_has_a_row_for_each_trial_and_names_the_labels(run: RunStudy, tmp_path: Path) -> None:
    run()
    table = pq.read_table(tmp_path / "out/trials.parquet")
    assert len(set(table["key"].to_pylist())) == table.num_rows == 6
    assert len(json.loads(table.schema.metadata[b"labels"])) == len(table["label_shares"][0].as_py()) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "other"}, "holds the trials of the study 'small', not of 'other'"),
        ({"data__source": {"type": "generator", "seed": 4, "topics": 4, "records": 2000}}, "over other data"),
    ],
)
def test_a_folder_of_another_study_is_refused(run: RunStudy, changes: dict[str, object], message: str) -> None:
    run(seeds=1)
    with pytest.raises(Contradiction, match=message):
        run(seeds=1, **changes)


def test_a_table_without_its_study_is_refused(run: RunStudy, tmp_path: Path) -> None:
    run(seeds=1)
    (tmp_path / "out/study.json").unlink()
    with pytest.raises(Contradiction, match=r"trials.parquet is there without study.json, so its study is unknown"):
        run(seeds=1)


ONE_LABEL = {"type": "generator", "topics": 1, "records": 2000}
ENDLESS = {"type": "generator", "records": None}
REFUSED = [
    ({"data__source": ONE_LABEL}, "data: the data has one label, 'space'"),
    ({"data__source": ENDLESS}, "data.source: the source does not end"),
    ({"data__label": "topic"}, "data.source: the source has no field 'topic'"),
    ({"data__source": {"type": "generator", "unlabelled": 1.0, "records": 2000}}, "the source has no record with"),
    ({"data__holdout": 1900}, "streams.iid: a stream of 600 records and 1,900 to hold out needs 2,500"),
    ({"failures": [{"span": 9, "number": 1, "placement": "topic", "topic": "art"}]}, "failures.0.topic: the data has"),
    ({"treatments": ["lost_optimiser"]}, "treatments.0: the learner 'nb' keeps no optimiser state that it could lose"),
    ({"learners__nb": {"type": "sgd", "decay": 0}, "treatments": ["lost_optimiser"]}, "keeps no optimiser state"),
    (
        {"learners__nb": {"type": "river_nb"}, "treatments": [{"type": "stale_state", "part": 0.5}]},
        "the state of the learner 'nb' has no parts",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda part: str(part)[:50])
def test_what_only_the_data_shows_is_refused_before_spark_starts(
    write: WriteStudy, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        run_study(load_study(write(**changes)), tmp_path / "out")
    assert message in str(refused.value)
    assert "small.yaml:" in str(refused.value)


def test_the_state_forgets_each_lost_span_by_itself(run: RunStudy) -> None:
    """All of the stream is lost, span by span: each span is predicted by a model that knows nothing of the others."""
    table = run(
        treatments=["at_most_once", {"type": "state_only", "of": "at_most_once"}],
        failures=[{"span": 60, "number": 10}],
        checkpoint_every=[60],
    )
    for seed in range(2):
        both, state = (rows_of(table, seed=seed, treatment=name)[0] for name in ("at_most_once", "state_only"))
        assert (both["lost"], state["lost"], both["not_trained"], state["not_trained"]) == (10, 0, 600, 600)
        assert state["accuracy_first"] == pytest.approx(both["accuracy_first"], abs=10 / 600)

"""The cells of a study: their intervals, verdicts, noise bands and closed forms, against the table itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from support.studies import RunStudy, rows_of, run_here, write_study

from millstream.study.cells import Cell, cells_of, cells_table
from millstream.study.statistics import Verdict, holm, noise_band
from millstream.study.study_file import load_study

SMALL = {
    "streams": {"iid": {"order": "iid"}, "blocks": {"order": "blocks", "size": 60}},
    "learners": {"nb": {"type": "naive_bayes"}, "softmax": {"type": "softmax", "rate": "constant", "learning_rate": 1}},
    "failures": [{"span": 60, "number": 2}, {"span": 20, "number": 2}],
    "treatments": ["at_least_once", "at_most_once", "interleaved", {"type": "output_only", "of": "at_least_once"}],
    "seeds": 3,
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    folder = tmp_path_factory.mktemp("cells")
    return run_here(load_study(write_study(folder / "small.yaml", SMALL)), folder / "out")


def cell_of(cells: list[Cell], **factors: object) -> Cell:
    [cell] = [cell for cell in cells if all(cell.factors[name] == value for name, value in factors.items())]
    return cell


def differences(table: pa.Table, column: str, **factors: object) -> list[float]:
    """The differences of a column to the exactly-once trials, by seed."""
    found = rows_of(table, **factors)
    once = rows_of(table, treatment="exactly_once", stream=factors["stream"], learner=factors["learner"])
    pairs = {row["seed"]: row[column] for row in once}
    return [row[column] - pairs[row["seed"]] for row in found]


def test_a_cell_has_the_interval_of_its_paired_differences(table: pa.Table) -> None:
    where = {"stream": "blocks", "learner": "softmax", "treatment": "at_most_once", "span": 60}
    cell = cell_of(cells_of(table, {}), **where)
    expected = differences(table, "holdout_accuracy", **where)
    low, high = stats.ttest_1samp(expected, 0.0).confidence_interval(0.95)
    assert cell.interval is not None and (cell.interval.low, cell.interval.high) == pytest.approx((low, high))
    assert cell.accuracy_difference == pytest.approx(np.mean(expected))
    assert cell.first_difference == pytest.approx(np.mean(differences(table, "accuracy_first", **where)))
    assert cell.affected == pytest.approx(120 / 600)


def test_verdicts_are_adjusted_for_all_cells_of_the_study_but_the_exactly_once_ones(table: pa.Table) -> None:
    cells = cells_of(table, {"iid": 0.2})
    family = [cell for cell in cells if cell.factors["treatment"] != "exactly_once"]
    assert len(family) == 2 * 2 * (3 * 2 + 1) and len(cells) == len(family) + 4
    assert all(cell.verdict is None for cell in cells if cell.factors["treatment"] == "exactly_once")
    alone = cells_of(table.filter(pa.compute.field("learner") == "nb"), {"iid": 0.2})
    where = {"stream": "iid", "learner": "nb", "treatment": "at_most_once", "span": 60}
    assert (cell_of(cells, **where).adjusted_p or 0) > (cell_of(alone, **where).adjusted_p or 0) / 2 > 0
    equivalent = {cell.factors["stream"] for cell in cells if cell.verdict is Verdict.EQUIVALENT}
    assert equivalent == {"iid"}  # the only stream with a margin


def test_the_noise_band_is_that_of_the_interleaved_trials_of_the_stream_and_learner(table: pa.Table) -> None:
    where = {"stream": "blocks", "learner": "softmax"}
    cell = cell_of(cells_of(table, {}), treatment="at_least_once", span=60, **where)
    changed = [row["labels_changed"] for row in rows_of(table, treatment="interleaved", **where)]
    assert cell.changed_noise == noise_band(changed)
    assert cell.accuracy_noise == noise_band(differences(table, "holdout_accuracy", treatment="interleaved", **where))


def test_equal_noise_of_a_few_seeds_has_the_spread_of_rounding(table: pa.Table) -> None:
    cell = cell_of(cells_of(table, {}), stream="iid", learner="nb", treatment="interleaved")
    found = differences(table, "holdout_accuracy", stream="iid", learner="nb", treatment="interleaved")
    assert found == [0, 0, 0]  # naive Bayes does not depend on the order
    assert cell.accuracy_noise is not None
    assert cell.accuracy_noise.half_width == pytest.approx(noise_band([0, 0, 0], resolution=1 / 200).half_width) != 0


def test_an_effect_on_the_output_alone_is_no_accuracy_difference(table: pa.Table) -> None:
    for cell in cells_of(table, {"iid": 0.01, "blocks": 0.01}):
        if cell.factors["treatment"] == "output_only":
            assert (cell.accuracy_difference, cell.verdict) == (0, Verdict.EQUIVALENT)
            assert cell.share_bias > 0


def test_one_seed_has_no_interval_and_no_verdict(run: RunStudy) -> None:
    for cell in cells_of(run(seeds=1), {"iid": 0.1}):
        assert (cell.interval, cell.verdict, cell.accuracy_noise) == (None, None, None)


def test_cells_become_a_flat_table(table: pa.Table) -> None:
    cells = cells_of(table, {"iid": 0.2})
    flat = cells_table(cells).to_pylist()
    assert len(flat) == len(cells)
    row, cell = flat[1], cells[1]
    assert cell.interval is not None
    assert (row["accuracy_difference_low"], row["verdict"], row["stream"]) == (cell.interval.low, cell.verdict, "iid")


def test_the_closed_form_of_a_cell_is_the_root_mean_square_over_labels_and_seeds(table: pa.Table) -> None:
    where = {"stream": "blocks", "learner": "nb", "treatment": "at_least_once", "span": 60}
    cell, rows = cell_of(cells_of(table, {}), **where), rows_of(table, **where)
    expected = np.sqrt(np.mean([np.square(row["closed_form_share_bias"]) for row in rows]))
    assert cell.closed_form_share_bias == pytest.approx(expected)
    deffs = [deff for row in rows for deff in row["deff"]]
    assert cell.deff is not None and min(deffs) < cell.deff < max(deffs)


def test_lost_records_are_set_beside_an_exactly_once_trial_that_lacks_as_many(run: RunStudy) -> None:
    """A trial that loses all of its last records is that trial, whatever another one with as many losses loses."""
    between: list[list[float]] = [[0.2, 1], [0.7, 1]]
    table = run(failures=[{"span": 60, "number": 3, "between": part} for part in between], seeds=2)
    for seed in range(2):
        [other, last] = rows_of(table, treatment="at_most_once", seed=seed)
        assert other["not_trained"] == last["not_trained"] == 180
        assert other["shorter_accuracy"] == last["shorter_accuracy"] == last["holdout_accuracy"]
        for row in rows_of(table, seed=seed):
            assert row["treatment"] == "at_most_once" or row["shorter_accuracy"] is None
    once = np.mean([row["holdout_accuracy"] for row in rows_of(table, treatment="exactly_once")])
    cells = [cell for cell in cells_of(table, {}) if cell.shorter_difference is not None]
    assert [cell.factors["treatment"] for cell in cells] == ["at_most_once"] * 2
    shorter = np.mean([row["shorter_accuracy"] for row in rows_of(table, treatment="at_most_once")])
    assert [cell.shorter_difference for cell in cells] == pytest.approx([shorter - once] * 2) != [0, 0]


def test_holm_is_applied_to_the_p_values_of_the_family(table: pa.Table) -> None:
    cells = [cell for cell in cells_of(table, {}) if cell.verdict is not None]
    p = []
    for cell in cells:
        found = np.array(differences(table, "holdout_accuracy", **cell.factors))
        deviation = max(found.std(ddof=1), 1 / 200 / np.sqrt(12))
        t = abs(found.mean()) / deviation * np.sqrt(len(found))
        p.append(2 * stats.t.sf(t, len(found) - 1))
    assert [cell.adjusted_p for cell in cells] == pytest.approx(holm(p).tolist())

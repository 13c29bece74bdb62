"""Two runs side by side: what a changed option changes, and what cannot be compared."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support.documents import EPOCH_RECORDS, write_documents
from support.forked_runs import fork, interrupted
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import MillstreamError
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.runs.comparison import RunComparison, compare_runs
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run

FILES = {"predictions": {"type": "files", "format": "jsonl", "path": "{run}"}}


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine(), sinks=FILES)


def compared(pipeline: Pipeline, first: str, second: str) -> RunComparison:
    ours, theirs = (RunDirectory.find(pipeline.folder / "runs" / name) for name in (first, second))
    return compare_runs((ours, load_run(ours)), (theirs, load_run(theirs)))


def rows(pipeline: Pipeline, name: str) -> dict[tuple[str, int, int], tuple[str | None, str | None]]:
    """By position the prediction and the label, read from the files of the sink."""
    lines = [
        line for path in sorted((pipeline.folder / name).glob("*.jsonl")) for line in path.read_text().splitlines()
    ]
    found = map(json.loads, lines)
    return {(r["_source"], r["_partition"], r["_offset"]): (r.get("predicted"), r.get("label")) for r in found}


def test_a_run_and_its_replay_are_the_same(pipeline: Pipeline) -> None:
    pipeline.run("one")
    pipeline.run("two", replay=pipeline.folder / "runs/one")
    found = compared(pipeline, "one", "two")
    assert (found.equal_epochs, found.first_difference, found.not_compared) == (8, None, [])
    assert found.predictions["predictions"].different == 0
    assert all(window.accuracies[0] == window.accuracies[1] for window in found.windows)
    [(ours, theirs)] = found.models.values()
    assert ours == theirs


def test_another_model_is_compared_record_by_record(pipeline: Pipeline) -> None:
    pipeline.run("one")
    other = dataclasses.replace(pipeline, model={"type": "majority"})
    other.run("two", replay=pipeline.folder / "runs/one")
    found = compared(pipeline, "one", "two")
    ours, theirs = rows(pipeline, "one"), rows(pipeline, "two")
    changed = {position for position in ours if ours[position] != theirs[position]}
    each = found.predictions["predictions"]
    assert (each.common, each.different) == (len(ours), len(changed))
    assert each.different > 0
    assert len(each.examples) == min(5, len(changed))
    for example in each.examples:
        position = example.position["_source"], example.position["_partition"], example.position["_offset"]
        assert position in changed
        assert example.predicted == (ours[position][0], theirs[position][0])
        assert example.label == ours[position][1]
    for side, made in enumerate((ours, theirs)):
        labelled = [(label, predicted) for predicted, label in made.values() if label is not None]
        right = sum(label == predicted for label, predicted in labelled)
        assert each.accuracies[side] == pytest.approx(right / len(labelled))
        for label, counts in each.labels.items():
            assert counts[side] == sum(predicted == label for predicted, _ in made.values())
    assert found.first_difference is not None
    assert (found.first_difference.epoch, found.equal_epochs) == (0, 0)
    assert found.first_difference.what.startswith("the records of step ")
    [(one, two)] = found.models.values()
    assert one != two


def test_a_fork_differs_first_where_its_option_matters(pipeline: Pipeline) -> None:
    interrupted(pipeline, "old")
    pipeline.run("old")
    pipeline.checkpoint_every = 1
    other = dataclasses.replace(pipeline, model={"type": "complement_nb", "batch_size": 16, "alpha": 30.0})
    fork(other, "old", "new", at=5)
    other.run("new")
    found = compared(pipeline, "old", "new")
    each = found.predictions["predictions"]
    assert each.rows == (8 * EPOCH_RECORDS - 1, 4 * EPOCH_RECORDS - 1)  # one line is broken
    assert each.common == each.rows[1]
    ours, theirs = rows(pipeline, "old"), rows(pipeline, "new")
    assert each.different == sum(ours[position] != predicted for position, predicted in theirs.items())
    assert [(window.start, window.stop) for window in found.windows] == [(96, 120), (120, 144), (144, 168), (168, 192)]
    assert found.first_difference is not None
    assert found.equal_epochs == found.first_difference.epoch - 4


def test_other_cuts_are_named_and_the_rest_is_compared(pipeline: Pipeline) -> None:
    pipeline.run("one")
    dataclasses.replace(pipeline, epoch_records=10).run("two")
    found = compared(pipeline, "one", "two")
    assert found.first_difference is not None
    assert (found.first_difference.epoch, found.equal_epochs) == (0, 0)
    assert found.first_difference.what.startswith("its cut")
    assert found.predictions["predictions"].common == 8 * EPOCH_RECORDS - 1
    assert found.windows[-1].stop == 8 * EPOCH_RECORDS


def test_a_record_whose_row_is_repeated_counts_once(pipeline: Pipeline) -> None:
    pipeline.run("one")
    weak = dataclasses.replace(pipeline, delivery=Delivery.AT_LEAST_ONCE)
    weak.crash("two", CrashPoint(Point.DELIVER, 4))
    weak.run("two")
    found = compared(pipeline, "one", "two")
    assert found.predictions["predictions"].rows == (8 * EPOCH_RECORDS - 1,) * 2
    assert found.predictions["predictions"].different == 0


def test_what_cannot_be_compared_is_said(pipeline: Pipeline) -> None:
    pipeline.run("one")
    pipeline.crash("two", CrashPoint(Point.DELIVER, 4))
    [part] = (pipeline.folder / "one").glob("part*")
    part.unlink()
    part.mkdir()  # it cannot be read
    found = compared(pipeline, "one", "two")
    assert [line.partition(":")[0] for line in found.not_compared] == ["predictions", "models"]
    assert "two has not ended cleanly" in found.not_compared[1]
    empty = RunDirectory(pipeline.folder / "runs/empty")
    empty.path.mkdir()
    empty.make({}, pipeline.folder)
    one = RunDirectory.find(pipeline.folder / "runs/one")
    with pytest.raises(MillstreamError, match="has no epoch yet: there is nothing to compare"):
        compare_runs((one, load_run(one)), (empty, load_run(one)))

"""The cases without crashes on every engine: empty epochs, ends, added sinks and partitions, replays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.engines import on_engines
from support.pipelines import Pipeline

from millstream.engines.cutter import LogCutter
from millstream.engines.job import Engine
from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredLog
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import Epoch, EpochReader, SinkAdded
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, outputs_of


@pytest.fixture
def pipeline(tmp_path: Path, engine: Engine, engine_name: str) -> Pipeline:
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, engine, engine_name=engine_name)


@on_engines("simulated", "local", "local-3", "spark")
def test_a_replay_on_another_engine_gives_the_same_results_bit_by_bit(pipeline: Pipeline) -> None:
    pipeline.model = {"type": "sgd", "batch_size": 16}
    here = pipeline.run("here")
    other = Pipeline(pipeline.folder, LocalEngine(), model=pipeline.model)
    there = other.run("there", replay=pipeline.folder / "runs/here")
    back = pipeline.run("back", replay=pipeline.folder / "runs/there")
    for replayed in (there, back):
        assert (replayed.model, replayed.state, replayed.outputs) == (here.model, here.state, here.outputs)
    assert here.engine == pipeline.loaded("here").config.engine.type


@on_engines("simulated", "local", "local-3", "spark")
def test_epochs_without_a_record_pass_all_points(pipeline: Pipeline) -> None:
    for file in (pipeline.folder / "documents").iterdir():
        file.write_text("")
    pipeline.source = {"ends": True}
    pipeline.crash("run", CrashPoint(Point.COMMIT, 0))
    summary = pipeline.run("run")
    assert (summary.epochs, summary.records) == (1, 0)


@on_engines("simulated", "local", "local-3", "spark")
def test_windows_close_when_all_partitions_have_ended(pipeline: Pipeline) -> None:
    open_ended = pipeline.run("open")
    pipeline.source = {"ends": True}
    ended = pipeline.run("ended")
    assert ended.outputs["predictions"] == open_ended.outputs["predictions"]
    assert ended.delivered["topics"] > open_ended.delivered["topics"]


@on_engines("simulated", "local", "local-3", "spark")
def test_a_file_that_is_added_later_is_a_new_partition(pipeline: Pipeline) -> None:
    first = pipeline.run("run")
    write_documents(pipeline.folder / "more", files=1, records=EPOCH_RECORDS, seed=9)
    shutil.copy(pipeline.folder / "more/part0.jsonl", pipeline.folder / "documents/later.jsonl")
    pipeline.crash("run", CrashPoint(Point.PROCESS, EPOCHS))
    second = pipeline.run("run")
    assert second.records == first.records + EPOCH_RECORDS
    partitions = [p.name for p in EpochReader(pipeline.folder / "runs/run/epochs").totals().partitions]
    assert partitions == ["part0.jsonl", "part1.jsonl", "later.jsonl"]


@on_engines("simulated", "local", "local-3")
@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_sink_that_is_added_begins_with_the_next_epoch_that_is_cut(pipeline: Pipeline, delivery: Delivery) -> None:
    pipeline.delivery = delivery
    pipeline.run("run", records=3 * EPOCH_RECORDS)
    pipeline.sinks = {"predictions": {"type": "files", "path": "elsewhere"}}
    pipeline.run("run")
    directory = RunDirectory(pipeline.folder / "runs/run")
    rows = sum(table.num_rows for table in outputs_of(directory, load_run(directory))["predictions"].read())
    golden = pipeline.counts("run")
    assert rows == sum(golden[epoch].get("predictions", 0) for epoch in range(3, EPOCHS))
    added = [
        (epoch.number, event.sink)
        for epoch in EpochReader(directory.epochs).epochs()
        for event in epoch.events
        if isinstance(event, SinkAdded) and epoch.number and event.sink.startswith("predictions")
    ]
    assert added == [(3, "predictions files elsewhere")]


@on_engines("simulated", "local", "local-3")
def test_a_sink_that_returns_continues_with_the_next_epoch_that_is_cut(pipeline: Pipeline) -> None:
    here, elsewhere = ({"predictions": {"type": "files", "path": path}} for path in ("here", "elsewhere"))
    for sinks in (here, elsewhere, here):
        pipeline.sinks = sinks
        pipeline.run("run", records=2 * EPOCH_RECORDS)
    pipeline.crash("run", CrashPoint(Point.DELIVER, EPOCHS - 1))
    delivered, counts = pipeline.run("run").delivered["predictions"], pipeline.counts("run")
    assert delivered == sum(counts[epoch]["predictions"] for epoch in range(EPOCHS) if epoch not in (2, 3))


@on_engines("simulated", "local", "local-3", "spark")
def test_records_that_are_removed_before_they_are_read_end_the_run_with_one_message(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, cut = pipeline.folder / "documents/part1.jsonl", LogCutter.cut

    def cut_and_shorten(cutter: LogCutter, now: float) -> Epoch | None:
        epoch = cut(cutter, now)
        if epoch is not None:
            file.write_text(file.read_text().splitlines()[0] + "\n")
            cutter._done = True  # the cutter does not check the file again
        return epoch

    monkeypatch.setattr(LogCutter, "cut", cut_and_shorten)
    with pytest.raises(AlteredLog, match=r"part1\.jsonl has 1 rows, and row 11 was to be read: it was cut$"):
        pipeline.run("run")

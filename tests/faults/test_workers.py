"""Workers of the local engine die, hang or fail: the run continues with the same results, or ends with one line."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.conditions import HANG_SECONDS
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.kills import BY_LABEL, Victim, kill_processes
from support.pipelines import Pipeline, results
from support.suite import GRAPHS

from millstream.engines.cutter import LogCutter
from millstream.engines.local import worker_pool
from millstream.engines.local.engine import LocalEngine
from millstream.engines.script_import import process_name
from millstream.errors import ConfigError, MillstreamError, StepFailed
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import Epoch, EpochReader, planner
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, outputs_of
from millstream.runs.start import Options, start
from millstream.runs.summary import Summary
from millstream.runs.watch.observer import Observer, Watched
from millstream.steps.processor import EpochResult


def shoot(*names: str, by: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to workers of the run in this process."""
    shot = {process.name: process for process in multiprocessing.active_children()}
    for name in names:
        os.kill(shot[process_name(name)].pid or 0, by)


@dataclass
class Shooting(Observer):
    """Watches a run and calls `then` after some epochs, the first time that they are through; keeps the reasons."""

    then: dict[int, Callable[[], None]] = field(default_factory=dict)
    at_start: list[Callable[[], None]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def started(self, first: int) -> None:
        if self.at_start:
            self.at_start.pop(0)()

    def finished_epoch(self, result: EpochResult) -> None:
        self.then.pop(result.epoch.number, lambda: None)()

    def restarted(self, reason: str) -> None:
        self.reasons.append(reason)

    def run(self, pipeline: Pipeline, name: str, **options: Any) -> Summary:
        def observers(watched: Watched) -> Sequence[Observer]:
            return [self]

        index = Options(pipeline.folder / "runs" / name, follow=False, **options)
        return start(pipeline.loaded(name), index, engine=pipeline.engine, observers=observers)


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setattr(planner, "MOST_RECORDS", 3 * EPOCH_RECORDS)  # so that epochs follow while workers die
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine(), model={"type": "sgd", "batch_size": 16}, engine_name="local-3")


@pytest.mark.parametrize(
    "names", [["reader 0"], ["reader 1"], ["sequencer"], ["reader 0", "sequencer"]], ids=" and ".join
)
def test_killed_workers_cost_nothing_but_a_line(pipeline: Pipeline, names: list[str]) -> None:
    golden = pipeline.run("golden")
    shooting = Shooting({0: lambda: shoot(*names), EPOCHS // 2: lambda: shoot(*names)})
    summary = shooting.run(pipeline, "run", records=10_000)
    assert results(summary) == results(golden)
    assert len(shooting.reasons) == 2
    for reason in shooting.reasons:
        assert reason.startswith(tuple(names))
        assert reason.endswith("was killed by SIGKILL; all workers start again from the newest checkpoint")


@pytest.mark.parametrize("name", ["reader 0", "reader 1", "sequencer"])
def test_a_worker_killed_at_every_point_one_after_the_other(pipeline: Pipeline, name: str) -> None:
    golden = pipeline.run("golden")
    shot: list[int] = []
    for index, point in enumerate(Point):
        options = Options(
            pipeline.folder / "runs/run", follow=False, records=EPOCH_RECORDS, crash=CrashPoint(point, index)
        )

        def fire() -> None:
            if len(shot) == index:  # noqa: B023
                shoot(name)
                shot.append(index)  # noqa: B023

        start(pipeline.loaded("run"), options, engine=pipeline.engine, fire=fire)
    assert len(shot) == len(Point)
    assert results(pipeline.run("run")) == results(golden)


def test_a_worker_that_is_killed_while_the_others_recover(pipeline: Pipeline) -> None:
    golden = pipeline.run("golden")
    shooting = Shooting({2: lambda: shoot("sequencer")}, [lambda: None, lambda: shoot("reader 1")])
    assert results(shooting.run(pipeline, "run")) == results(golden)
    assert [reason.partition(" (")[0] for reason in shooting.reasons] == ["sequencer", "reader 1"]


def test_workers_that_are_killed_while_epochs_are_repeated_and_saved(pipeline: Pipeline) -> None:
    """No epoch that comes through is new, but each has less to repeat."""
    golden = pipeline.run("golden")
    pipeline.delivery, pipeline.checkpoint_every = Delivery.AT_LEAST_ONCE, EPOCHS
    pipeline.crash("run", CrashPoint(Point.DELIVER, EPOCHS - 1))
    pipeline.checkpoint_every = 1
    shooting = Shooting({epoch: lambda: shoot("sequencer") for epoch in (1, 3, 5)})
    assert shooting.run(pipeline, "run").records == golden.records
    assert len(shooting.reasons) == 3


def test_a_worker_that_hangs_is_taken_for_dead(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = pipeline.run("golden")
    monkeypatch.setattr(worker_pool, "_SILENCE_SECONDS", HANG_SECONDS)  # a slow machine's workers do not hang

    check_silence = worker_pool.LocalWorkerPool._check_silence

    def check_the_sequencer(pool: worker_pool.LocalWorkerPool) -> None:
        pool._silent |= {name: 0.0 for name in pool.names if name != "sequencer"}  # a slow reader does not hang
        check_silence(pool)

    def stop() -> None:
        shoot("sequencer", by=signal.SIGSTOP)
        monkeypatch.setattr(worker_pool.LocalWorkerPool, "_check_silence", check_the_sequencer)
        monkeypatch.setattr(worker_pool, "_SILENCE_SECONDS", 3.0)

    class Stopping(Shooting):
        def restarted(self, reason: str) -> None:
            super().restarted(reason)
            monkeypatch.setattr(worker_pool, "_SILENCE_SECONDS", HANG_SECONDS)

    stopping = Stopping({3: stop})
    assert results(stopping.run(pipeline, "run")) == results(golden)
    assert stopping.reasons == ["sequencer has not moved for 3 s; all workers start again from the newest checkpoint"]


AS_IF = {
    Delivery.AT_LEAST_ONCE: {
        Point.CUT: (Point.CUT, 5),
        Point.PROCESS: (Point.DELIVER, 5),
        Point.DELIVER: (Point.DELIVER, 5),
        Point.CHECKPOINT: (Point.CUT, 6),
        Point.COMMIT: (Point.CUT, 6),
    },
    Delivery.AT_MOST_ONCE: {
        Point.CUT: (Point.COMMIT, 5),
        Point.COMMIT: (Point.COMMIT, 5),
        Point.PROCESS: (Point.PROCESS, 5),
        Point.CHECKPOINT: (Point.COMMIT, 6),
        Point.DELIVER: (Point.COMMIT, 6),
    },
}
"""The coordinator continues until it needs the killed worker: to process an epoch, or to send its state."""


@pytest.mark.parametrize("delivery", AS_IF)
@pytest.mark.parametrize("point", Point)
def test_a_worker_killed_at_a_point_is_a_crash_there(pipeline: Pipeline, delivery: Delivery, point: Point) -> None:
    pipeline.run("golden")
    pipeline.delivery = delivery
    options = Options(pipeline.folder / "runs/run", follow=False, crash=CrashPoint(point, 5))
    shots = [lambda: shoot("sequencer")]
    summary = start(
        pipeline.loaded("run"), options, engine=pipeline.engine, fire=lambda: shots.pop()() if shots else None
    )
    predicted = pipeline.predicted([CrashPoint(*AS_IF[delivery][point])], list(summary.delivered))
    counts, found = pipeline.counts("golden"), pipeline.audit("run", "golden")
    assert found.trained_twice == sum(counts[epoch]["records"] for epoch in predicted.trained_twice)
    assert found.lost == sum(counts[epoch]["records"] for epoch in predicted.lost)


def test_a_worker_that_dies_of_its_work_ends_the_run_in_one_sentence(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly_function.py").write_text("import os\n\ndef touch(record):\n    os._exit(13)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    pipeline.steps = [{"type": "map", "function": "deadly_function:touch"}]
    pipeline.sinks = {}
    shooting = Shooting()
    with pytest.raises(MillstreamError) as ended:
        shooting.run(pipeline, "run")
    assert re.fullmatch(
        r"reader \d \(process \d+\) ended with exit code 13; that was the 3rd time in a row that no epoch was "
        r"finished. The first epoch in progress was epoch 0: source/part0.jsonl 0 to 11, source/part1.jsonl 0 to 11; "
        r"readers run map, the sequencer none: check these steps with these records, and the memory",
        str(ended.value),
    )
    assert len(shooting.reasons) == 2
    sys.modules.pop("deadly_function", None)


def test_a_function_that_workers_do_not_find_is_told_at_once(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_here = ModuleType("made_here")
    made_here.touch = lambda record: {}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_here", made_here)
    pipeline.steps, pipeline.sinks = [{"type": "map", "function": "made_here:touch"}], {}
    with pytest.raises(ConfigError, match=r"there is no module 'made_here'; .*PYTHONPATH"):
        pipeline.run("run")


def test_workers_may_die_as_often_as_they_like_while_it_is_quiet(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = pipeline.run("golden")
    stop, shots, cut = threading.Event(), 5, LogCutter.cut

    class Quiet(Shooting):
        """Shoots when there is nothing left to take: all that is cut is through, or was before this start."""

        left = EPOCHS
        shot = False

        def started(self, first: int) -> None:
            self.left, self.shot = EPOCHS - first, False

        def finished_epoch(self, result: EpochResult) -> None:
            self.left -= 1

        def cut(self, cutter: LogCutter, now: float) -> Epoch | None:
            if self.left == 0 and not self.shot and len(self.reasons) < shots:
                shoot("sequencer")
                self.shot = True
            if len(self.reasons) == shots:
                stop.set()
            return cut(cutter, now)

    quiet = Quiet()
    monkeypatch.setattr(LogCutter, "cut", lambda cutter, now: quiet.cut(cutter, now))
    index = Options(pipeline.folder / "runs/run", follow=True)
    summary = start(pipeline.loaded("run"), index, engine=pipeline.engine, observers=lambda watched: [quiet], stop=stop)
    assert len(quiet.reasons) == shots
    assert summary.records == golden.records
    assert results(pipeline.run("run")) == results(golden)  # this run ends with the files: their partitions are idle


def test_a_step_that_fails_in_a_worker_says_what_it_says_alone(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "picky_function.py").write_text(
        "def touch(record):\n    assert record['label'] != 'glacier', 'too cold'\n    return {}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline.steps = [{"type": "map", "function": "picky_function:touch"}]
    pipeline.sinks = {}
    messages = []
    for engine_name in ("local", "local-3"):
        pipeline.engine_name = engine_name
        with pytest.raises(StepFailed) as failed:
            pipeline.run(engine_name)
        messages.append(str(failed.value))
    assert messages[0] == messages[1]
    assert "too cold" in messages[0]
    sys.modules.pop("picky_function", None)


@pytest.mark.parametrize("delivery", Delivery)
def test_what_was_cut_before_a_record_that_fails_is_delivered_before(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delivery: Delivery
) -> None:
    """Although a reader meets it while the epochs before are on their way."""
    failing = EPOCHS // 2
    line = (tmp_path / "documents/part0.jsonl").read_text().splitlines()[failing * EPOCH_RECORDS // 2 + 1]
    (tmp_path / "late_function.py").write_text(
        f"def touch(record):\n    assert record['text'] != {json.loads(line)['text']!r}, 'too late'\n    return {{}}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline.steps, pipeline.sinks = [{"type": "map", "function": "late_function:touch"}], {}
    pipeline.delivery = delivery
    for pipeline.engine_name in ("local", "local-3"):
        with pytest.raises(StepFailed, match=f"too late.*epoch {failing},"):
            pipeline.run(pipeline.engine_name)
        totals = EpochReader(pipeline.folder / "runs" / pipeline.engine_name / "epochs").totals()
        assert totals.epochs == failing
    sys.modules.pop("late_function", None)


@pytest.mark.long
@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("worker", "coordinator", "worker"), id="three"),
        pytest.param((*("worker", "worker", "coordinator") * 3, "coordinator"), id="ten", marks=pytest.mark.matrix),
    ],
)
def test_kills_of_random_processes_leave_no_process_and_no_trace(tmp_path: Path, victims: Sequence[Victim]) -> None:
    kill_processes(tmp_path, victims, epochs=20, seed=7)


@pytest.mark.long
def test_kills_lose_no_state_by_key_in_rocksdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    kill_processes(tmp_path, ["worker", "coordinator"], epochs=20, seed=5, steps=BY_LABEL)


@pytest.mark.long
@pytest.mark.matrix
def test_kills_leave_no_document_in_pieces(tmp_path: Path) -> None:
    """The words of a document are counted by several workers and collected by its key."""
    steps = GRAPHS["documents"].options["steps"]
    kill_processes(tmp_path, ["worker", "coordinator", "worker"], epochs=20, seed=6, steps=steps)


FAILING_LATE = """
def labelled(record):
    return {"label": record["label"] or "none"}

def forget(record, state):
    return {}, None

def count(record, state):
    seen = (state or 0) + 1
    assert seen < 40, "forty of them"
    return {}, seen
"""


def test_a_step_that_fails_in_the_sequencer_leaves_delivered_what_is_delivered_alone(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_function.py").write_text(FAILING_LATE)
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline.steps = [
        {"type": "map", "function": "late_function:labelled"},
        {"type": "per_key", "name": "first", "key": "label", "function": "late_function:forget"},
        {"type": "classify", "model": {"type": "river_nb"}},
        {"type": "per_key", "name": "second", "key": "label", "function": "late_function:count"},
    ]
    pipeline.sinks = {}
    delivered = []
    for engine_name in ("local", "local-3"):
        pipeline.engine_name = engine_name
        with pytest.raises(StepFailed, match=r"'second'.*forty of them"):
            pipeline.run(engine_name)
        directory = RunDirectory(tmp_path / "runs" / engine_name)
        output = outputs_of(directory, load_run(directory))["predictions"]
        delivered.append([row["_offset"] for rows in output.read() for row in rows.to_pylist()])
    assert len(delivered[0]) > EPOCH_RECORDS
    assert delivered[1] == delivered[0]
    sys.modules.pop("late_function", None)

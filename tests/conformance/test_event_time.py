"""Event time on every engine: no partition without news holds the windows of the others for good.

Six hours of records on two topics give ten rows of `topics`: those of the five hours that have ended.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.brokers import SharedBroker
from support.engines import on_engines
from support.forks import start_fork_server
from support.pipelines import Pipeline
from support.topics import produce_documents

from millstream.engines.job import Engine
from millstream.engines.local.engine import LocalEngine
from millstream.log.epochs import Added, Epoch, EpochLog, EpochReader, EpochReceipt, Event, Idle, PartitionName
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, outputs_of
from millstream.runs.start import Options, start
from millstream.runs.watch.observer import Observer
from millstream.steps.processor import EpochResult
from millstream.timestamps import wall_clock

HOUR, DAY = 3600, 86_400
BEGINNING = 1_700_000_000 // DAY * DAY
FIELDS = {"text": "text", "label": "label"}
EMPTY: Sequence[Any] = ()
OLD = [{"text": "old", "label": "sport", "time": BEGINNING}]
TIMELESS = [{"text": "timeless", "label": "sport"}] * 5
UNREADABLE = [{"texxt": "nothing"}] * 5


def record(second: int) -> dict[str, Any]:
    return {"text": "a record", "label": ("sport", "music")[second // 36 % 2], "time": BEGINNING + second}


SIX_HOURS = [record(number * 36) for number in range(600)]


def windows(lateness: str) -> dict[str, Any]:
    return {"type": "popularity", "of": "label", "window": {"type": "tumbling", "size": "1h", "lateness": lateness}}


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in records))


def read(pipeline: Pipeline, name: str, output: str) -> list[dict[str, Any]]:
    directory = RunDirectory(pipeline.folder / "runs" / name)
    return [row for rows in outputs_of(directory, load_run(directory))[output].read() for row in rows.to_pylist()]


def made(pipeline: Pipeline, name: str) -> tuple[list[tuple[Any, ...]], int]:
    """The windows, topics and counts of a run's rows, and the number of late records."""
    rows = [(row["_window"], row["topic"], row["count"]) for row in read(pipeline, name, "topics")]
    return rows, len(read(pipeline, name, "late"))


def replayed(pipeline: Pipeline, epochs: Sequence[Epoch]) -> list[EpochReceipt]:
    """Run epochs that a test has cut by hand; the receipts."""
    pipeline.run("original", records=1)
    folder = pipeline.folder / "runs/original/epochs"
    shutil.rmtree(folder)
    log = EpochLog(folder)
    for epoch in epochs:
        log.cut(epoch)
    log.close()
    pipeline.run("replayed", replay=folder.parent)
    return list(EpochReader(pipeline.folder / "runs/replayed/epochs").receipts())


def watermarks(receipts: Sequence[EpochReceipt]) -> list[int | None]:
    """The watermarks of the sources by epoch, in seconds after the beginning; the window holds them back by 0."""
    times = [receipt.watermarks["popularity"] for receipt in receipts]
    return [None if time is None else time // 1_000_000 - BEGINNING for time in times]


@pytest.fixture
def pipeline(tmp_path: Path, engine: Engine, engine_name: str) -> Pipeline:
    return Pipeline(tmp_path, engine, engine_name=engine_name, steps=[windows("1m")], sinks={}, placement={})


@on_engines("simulated", "local", "local-3", "spark")
@pytest.mark.parametrize("beside", [EMPTY, OLD, UNREADABLE, TIMELESS], ids=["empty", "old", "unreadable", "timeless"])
def test_a_file_beside_a_full_one_holds_no_window(pipeline: Pipeline, beside: Sequence[Any]) -> None:
    write(pipeline.folder / "documents/full.jsonl", SIX_HOURS)
    pipeline.run("alone")
    write(pipeline.folder / "documents/other.jsonl", beside)
    pipeline.run("together")
    (alone, _), (together, late) = made(pipeline, "alone"), made(pipeline, "together")
    assert len(alone) == 10
    assert [window for window, _, _ in together] == [window for window, _, _ in alone]
    assert late == 0


@on_engines("simulated", "local", "local-3", "spark")
def test_a_source_without_times_holds_no_window(pipeline: Pipeline) -> None:
    write(pipeline.folder / "documents/full.jsonl", SIX_HOURS)
    write(pipeline.folder / "untimed/some.jsonl", SIX_HOURS[:7])
    pipeline.run("alone")
    full, untimed = {"type": "files", "path": "documents"}, {"type": "files", "path": "untimed", "fields": FIELDS}
    pipeline.sources = {"full": full, "untimed": untimed}
    pipeline.run("together")
    assert len(made(pipeline, "alone")[0]) == 10
    assert made(pipeline, "together") == made(pipeline, "alone")


@on_engines("simulated", "local", "local-3", "spark")
def test_a_record_that_is_ahead_of_the_clock_is_a_reject_and_makes_no_record_late(pipeline: Pipeline) -> None:
    """On Spark, workers make the features of a record before it is a reject; on other engines they do so after it."""
    pipeline.steps = [{"type": "hashed_text", "name": "features", "dimensions": 64}, windows("1m")]
    write(pipeline.folder / "documents/full.jsonl", SIX_HOURS)
    pipeline.run("alone")
    wrong = {"text": "of the year 2124", "label": "sport", "time": BEGINNING + 100 * 365 * DAY}
    tomorrow = {"text": "of tomorrow", "label": "sport", "time": wall_clock() // 1_000_000 + DAY // 2}
    write(pipeline.folder / "documents/full.jsonl", [*SIX_HOURS[:100], wrong, *SIX_HOURS[100:], tomorrow])
    pipeline.run("wrong")
    (alone, _), (rows, late) = made(pipeline, "alone"), made(pipeline, "wrong")
    assert rows[:10] == alone
    assert late == 0
    [rejected] = read(pipeline, "wrong", "rejects")
    assert rejected["_offset"] == 100
    assert rejected["reason"] == "its time is more than 1d ahead of the clock (`ahead`)"
    pipeline.source = {"ahead": None}
    pipeline.run("never")
    assert read(pipeline, "never", "rejects") == []
    assert made(pipeline, "never")[1] > 450


NAMES = [PartitionName("source", f"{name}.jsonl", number) for number, name in enumerate("ab")]
ADDED = tuple(map(Added, NAMES))


def cuts(*epochs: tuple[dict[int, tuple[int, int]], tuple[Event, ...]]) -> list[Epoch]:
    """Epochs that were cut three days after the first record."""
    at = (BEGINNING + 3 * DAY) * 1_000_000
    return [Epoch(number, cut, events, at + number) for number, (cut, events) in enumerate(epochs)]


@pytest.fixture
def two(pipeline: Pipeline) -> Pipeline:
    """A pipeline over two partitions with the same six hours, in windows without lateness."""
    for name in "ab":
        write(pipeline.folder / f"documents/{name}.jsonl", SIX_HOURS)
    pipeline.steps = [windows("0s")]
    return pipeline


@on_engines("simulated", "local", "local-3", "spark")
def test_a_partition_that_is_read_behind_the_others_makes_no_record_late(two: Pipeline) -> None:
    behind = [({0: (n, n + 50), 1: (max(0, n - 40), n + 10)}, ADDED if n == 0 else ()) for n in range(0, 600, 50)]
    receipts = replayed(two, cuts(*behind, ({1: (560, 600)}, ())))
    assert [receipt.held_by for receipt in receipts] == [1] * 12 + [0]
    assert made(two, "replayed")[1] == 0
    assert len(made(two, "replayed")[0]) == 10


@on_engines("simulated", "local", "local-3", "spark")
def test_an_idle_partition_counts_again_once_it_has_records(two: Pipeline) -> None:
    receipts = replayed(
        two,
        cuts(
            ({0: (0, 50)}, ADDED),
            ({1: (0, 100)}, ()),
            ({0: (50, 150)}, (Idle(1),)),
            ({0: (150, 250)}, ()),
            ({0: (250, 300), 1: (100, 120)}, ()),
            ({0: (300, 400)}, ()),
            ({}, (Idle(1),)),
            ({0: (400, 450)}, (Idle(0),)),
            ({1: (120, 600)}, (Idle(1),)),
        ),
    )
    of_a, of_b = [record["time"] - BEGINNING for record in (SIX_HOURS[449], SIX_HOURS[599])]
    first, held = SIX_HOURS[49]["time"] - BEGINNING, SIX_HOURS[249]["time"] - BEGINNING
    assert receipts[0].watermarks == {}
    steady = SIX_HOURS[149]["time"] - BEGINNING
    risen = SIX_HOURS[399]["time"] - BEGINNING
    assert watermarks(receipts[1:]) == [first, steady, held, held, held, risen, of_a, of_b]
    assert [receipt.held_by for receipt in receipts] == [1, 0, 0, 0, 1, 1, 0, None, None]
    _, late = made(two, "replayed")
    assert late == 20 + (400 - 120)


@on_engines("simulated", "local", "local-3", "spark")
def test_windows_close_while_all_partitions_are_idle(two: Pipeline) -> None:
    idle: tuple[dict[int, tuple[int, int]], tuple[Event, ...]] = ({}, (Idle(0), Idle(1)))
    receipts = replayed(two, cuts(({0: (0, 300), 1: (0, 120)}, ADDED), idle))
    assert watermarks(receipts) == [SIX_HOURS[119]["time"] - BEGINNING, SIX_HOURS[299]["time"] - BEGINNING]
    assert [receipt.outputs["topics"].count for receipt in receipts] == [2, 2]


@pytest.mark.kafka
@pytest.mark.parametrize("follow", [False, True])
def test_partitions_of_a_topic_that_nobody_writes_to_hold_no_window(
    tmp_path: Path, broker: SharedBroker, follow: bool
) -> None:
    pipeline = Pipeline(tmp_path, LocalEngine(), steps=[windows("1m")], sinks={}, placement={})
    for name, partitions in (("one", 1), ("four", 4)):
        topic = broker.topic(name)
        for number in range(partitions):
            write(tmp_path / name / f"{number}.jsonl", EMPTY if number else SIX_HOURS)
        produce_documents(broker.bootstrap, topic, tmp_path / name)
        pipeline.source = {"type": "kafka", "bootstrap": broker.bootstrap, "topic": topic}
        pipeline.run(name, follow=follow, records=600)
    assert len(made(pipeline, "one")[0]) == 10
    assert made(pipeline, "four") == made(pipeline, "one")


@pytest.mark.parametrize("engine_name", ["local", "local-3"])
def test_windows_of_a_followed_source_close_without_a_partition_that_falls_silent(pipeline: Pipeline) -> None:
    """Partition b has one record, of the first hour. Without `idle` it would hold all windows."""
    write(pipeline.folder / "documents/a.jsonl", SIX_HOURS)
    write(pipeline.folder / "documents/b.jsonl", OLD)
    pipeline.source = {"idle": "50ms"}
    stop = threading.Event()

    class Closed(Observer):
        rows = 0

        def finished_epoch(self, result: EpochResult) -> None:
            self.rows += result.rows["topics"].num_rows
            if self.rows == 10:
                stop.set()

    if pipeline.engine_name == "local-3":
        start_fork_server()
    options = Options(pipeline.folder / "runs/followed", follow=True)
    start(pipeline.loaded("followed"), options, engine=pipeline.engine, observers=lambda _: [Closed()], stop=stop)
    rows, late = made(pipeline, "followed")
    assert (len(rows), late) == (10, 0)

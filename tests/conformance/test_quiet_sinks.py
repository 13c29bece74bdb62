"""A sink without recent rows: a restart long after its only row, when the base has passed it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.brokers import SharedBroker
from support.documents import document_lines
from support.engines import Engines, on_engines
from support.kafka.sink_topic import SinkTopic
from support.pipelines import Pipeline, results

from millstream.errors import ForeignSink
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.log.epochs import EpochReader, Totals

EPOCHS = 1500
AT_ONCE = 100
HALF_AN_HOUR = 1_800_000_000


class Clock:
    """The wall clock of a run, which a test advances."""

    now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


def written(folder: Path) -> None:
    """Documents of which only the fourth cannot be read."""
    lines = [
        line for line in document_lines(EPOCHS + 2) if json.loads(line.replace('"broken', '"broken"}')).get("time")
    ]
    lines[3] = '{"text": "broken'
    (folder / "documents").mkdir()
    (folder / "documents" / "all.jsonl").write_text("".join(line + "\n" for line in lines[:EPOCHS]))


def pipeline_in(folder: Path, engines: Engines, engine_name: str, rejects: dict[str, Any]) -> tuple[Pipeline, Clock]:
    """One record an epoch, and a `keep` of an hour."""
    clock = Clock()
    pipeline = Pipeline(
        folder,
        engines[engine_name],
        engine_name=engine_name,
        placement={},
        model={"type": "naive_bayes"},
        sinks={"rejects": rejects},
        keep="1h",
        epoch_records=1,
        wall_clock=clock,
    )
    return pipeline, clock


def crashed(pipeline: Pipeline, clock: Clock) -> EpochReader:
    """Run in starts half an hour apart, until the base is past epoch 1,000; then crash."""
    for _ in range(EPOCHS // AT_ONCE - 1):
        pipeline.run("run", records=AT_ONCE)
        clock.now += HALF_AN_HOUR
    last = EPOCHS - AT_ONCE // 2
    pipeline.crash("run", CrashPoint(Point.DELIVER, last), records=AT_ONCE)
    epochs = EpochReader(pipeline.folder / "runs/run/epochs")
    assert 1000 < epochs.base.epoch < last
    return epochs


@pytest.fixture
def forget_last_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Removes from the headers of segments the last epoch that made rows."""
    from_header = Totals.from_header

    def forget() -> None:
        patched = staticmethod(lambda header: dataclasses.replace(from_header(header), last_rows={}, delivered={}))
        monkeypatch.setattr(Totals, "from_header", patched)

    return forget


@on_engines("local")
@pytest.mark.long
def test_a_sink_of_which_the_only_row_is_before_the_base_changes_nothing(
    tmp_path: Path, engines: Engines, engine_name: str
) -> None:
    written(tmp_path)
    pipeline, clock = pipeline_in(tmp_path, engines, engine_name, {"type": "files"})
    crashed(pipeline, clock)
    golden = dataclasses.replace(pipeline, keep="1000d").run("golden")
    assert results(pipeline.run("run")) == results(golden)
    assert golden.delivered["rejects"] == 1


@pytest.mark.long
@pytest.mark.parametrize("forgotten", [False, True])
def test_rows_before_the_base_that_were_removed_are_noticed_by_the_header(
    tmp_path: Path, engines: Engines, forget_last_rows: Callable[[], None], forgotten: bool
) -> None:
    written(tmp_path)
    pipeline, clock = pipeline_in(tmp_path, engines, "local", {"type": "files"})
    crashed(pipeline, clock)
    shutil.rmtree(tmp_path / "runs/run/outputs/rejects")
    if forgotten:
        forget_last_rows()
        assert pipeline.run("run").delivered["rejects"] == 0  # without the header, nobody misses the row
        return
    with pytest.raises(ForeignSink, match="sink 'rejects' got rows from this run, the last ones of epoch 3, but"):
        pipeline.run("run")


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize(("gone", "forgotten", "rows"), [(False, False, 1), (True, False, 1), (True, True, 0)])
def test_a_topic_with_one_row_before_the_base_changes_nothing_also_when_the_row_has_expired(
    tmp_path: Path,
    engines: Engines,
    broker: SharedBroker,
    forget_last_rows: Callable[[], None],
    gone: bool,
    forgotten: bool,
    rows: int,
) -> None:
    written(tmp_path)
    sink_topic = SinkTopic(broker.bootstrap, broker.topic("quiet"), output="rejects")
    rejects = {"type": "kafka", "bootstrap": broker.bootstrap, "topic": sink_topic.topic}
    pipeline, clock = pipeline_in(tmp_path, engines, "local", rejects)
    crashed(pipeline, clock)
    golden = dataclasses.replace(pipeline, keep="1000d", sinks={}).run("golden")
    if gone:
        sink_topic.forget_group()
        sink_topic.remove_rows()
    if forgotten:
        forget_last_rows()
    summary = pipeline.run("run")
    assert summary.delivered["rejects"] == rows
    assert (results(summary) == results(golden)) is not forgotten

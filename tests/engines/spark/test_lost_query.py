"""A query that loses its Python processes is started again, and the run continues from the newest checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.pipelines import Pipeline, results

from millstream.engines.local.engine import LocalEngine
from millstream.engines.spark import feed
from millstream.engines.spark.engine import SparkEngine
from millstream.engines.spark.failures import QueryLost
from millstream.log.epochs import planner
from millstream.runs.start import Options, start
from millstream.runs.summary import Summary
from millstream.runs.termination import descendants
from millstream.runs.watch.observer import Observer, Watched
from millstream.steps.processor import EpochResult

pytestmark = pytest.mark.spark


class Killing(Observer):
    """Kills the Python processes of Spark whose command line has a word, after an epoch; collects restart reasons."""

    def __init__(self, word: str, after: int) -> None:
        self.reasons: list[str] = []
        self._word, self._after = word, after

    def finished_epoch(self, result: EpochResult) -> None:
        if result.epoch.number == self._after and not self.reasons:
            for pid in descendants(os.getpid()):
                with suppress(FileNotFoundError, ProcessLookupError):  # it has ended by itself
                    if self._word in Path(f"/proc/{pid}/cmdline").read_text():
                        os.kill(pid, signal.SIGKILL)

    def restarted(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setattr(planner, "MOST_RECORDS", 2 * EPOCH_RECORDS)  # so that epochs follow the kill
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, SparkEngine(keep_session=True), engine_name="spark")


def run(pipeline: Pipeline, observer: Observer) -> Summary:
    def observers(watched: Watched) -> Sequence[Observer]:
        return [observer]

    options = Options(pipeline.folder / "runs/run", follow=False)
    return start(pipeline.loaded("run"), options, engine=pipeline.engine, observers=observers)


@pytest.mark.parametrize(("word", "restarts"), [("streaming_source_runner", 1), ("pyspark.daemon", 0)])
def test_killed_python_processes_cost_one_restart_at_most(pipeline: Pipeline, word: str, restarts: int) -> None:
    """Without its planning process, the query is started again; Spark itself replaces killed workers."""
    killing = Killing(word, after=2)
    pipeline.engine = SparkEngine()  # closes the session: after a kill of the daemon, the next query cannot start in it
    summary = run(pipeline, killing)
    assert len(killing.reasons) == restarts
    golden = Pipeline(pipeline.folder, LocalEngine()).run("golden")
    assert results(summary) == results(golden)


class Failing:
    """Lets the first queries fail at their start, as when a Python process of Spark takes more than ten seconds."""

    def __init__(self, times: int) -> None:
        self._left, self._start = times, feed._start_query

    def __call__(self, *given: Any) -> Any:
        if self._left:
            self._left -= 1
            raise PySparkException("Python worker failed to connect back.")
        return self._start(*given)


@pytest.mark.xdist_group("spark")
def test_a_query_whose_processes_do_not_start_in_time_is_tried_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_start_query", Failing(2))
    killing = Killing("nothing", after=0)
    assert run(pipeline, killing).epochs == EPOCHS
    assert [reason.partition(";")[0] for reason in killing.reasons] == [
        "Spark's query ended: Python worker failed to connect back"
    ] * 2


@pytest.mark.xdist_group("spark")
def test_the_third_loss_without_progress_ends_the_run(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_start_query", Failing(3))
    killing = Killing("nothing", after=0)
    with pytest.raises(QueryLost, match=r"connect back; that was the 3rd time in a row .* look at .*/spark/spark\.log"):
        run(pipeline, killing)
    assert len(killing.reasons) == 2


class Unstoppable:
    """A query that reports an error when it is stopped, as a Spark without its JVM does."""

    def __init__(self, query: Any) -> None:
        self._query = query

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def stop(self) -> None:
        self._query.stop()
        raise Py4JError("Answer from Java side is empty\nat java.lang.Thread")


@pytest.mark.xdist_group("spark")
def test_a_query_that_cannot_be_stopped_is_a_warning(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start_query = feed._start_query
    monkeypatch.setattr(feed, "_start_query", lambda *given: Unstoppable(start_query(*given)))
    assert run(pipeline, Killing("nothing", after=0)).epochs == EPOCHS
    assert [record.getMessage() for record in caplog.records if record.name == feed.__name__] == [
        "Spark's query cannot be stopped, and perhaps still reads: Answer from Java side is empty"
    ]

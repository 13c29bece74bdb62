"""The metrics for Prometheus: totals over the life of a run directory, and measurements of one start."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from millstream.config.load import Loaded
from millstream.engines.job import Engine, Job
from millstream.engines.local.engine import LocalEngine
from millstream.engines.local.single_process import SingleProcessFeed
from millstream.guarantees.crash_point import CrashPoint
from millstream.log.epochs import EpochReader
from millstream.runs.start import Options, start
from millstream.runs.summary import Summary
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.prometheus import METRICS, RunCollector
from millstream.runs.watch.run_stats import StatsCollector
from millstream.state.checkpoints import read_newest

Configured = Callable[..., Loaded]


class Crash(BaseException):
    """The end of a run that drops all memory."""


def crash() -> None:
    raise Crash


class Run:
    """Starts a pipeline in one run directory, and reads the metrics of its last start."""

    def __init__(self, loaded: Loaded, folder: Path) -> None:
        self._loaded, self._folder = loaded, folder
        self.stats: StatsCollector | None = None
        self.registry = CollectorRegistry()

    def start(self, engine: Engine | None = None, **options: Any) -> Summary:
        def observers(watched: Watched) -> Sequence[Observer]:
            self.stats = StatsCollector(watched)
            self.registry = CollectorRegistry()
            self.registry.register(RunCollector(watched, self.stats, "1.2.3"))
            return [self.stats]

        return start(self._loaded, Options(self._folder, **options), engine=engine, observers=observers, fire=crash)

    def samples(self, name: str) -> Sequence[float]:
        return [sample.value for family in self.registry.collect() for sample in family.samples if sample.name == name]

    def value(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(name, {"pipeline": "small", **labels})
        assert value is not None, f"no sample {name} {labels}"
        return value


@pytest.fixture
def run(tmp_path: Path, configured: Configured) -> Run:
    return Run(configured(), tmp_path / "run")


def test_counters_equal_the_summary_and_continue_after_a_restart(run: Run) -> None:
    for until, records in ((900, 900), (None, 3000)):
        summary = run.start(records=until)
        assert summary.records == records
        assert run.value("millstream_records_total") == summary.records
        assert run.value("millstream_epochs_total") == summary.epochs
        assert run.value("millstream_accuracy", step="classify") == summary.accuracy
        labelled = run.value("millstream_labelled_records_total", step="classify")
        assert labelled == summary.records
        assert run.value("millstream_correct_records_total", step="classify") / labelled == summary.accuracy
        for name, accuracy in (summary.baselines or {}).items():
            right = run.value("millstream_baseline_correct_records_total", step="classify", baseline=name)
            share = run.value("millstream_baseline_accuracy", step="classify", baseline=name)
            assert right / records == share == accuracy
        delivered = {name: run.value("millstream_rows_total", output=name) for name in summary.delivered}
        assert delivered == summary.delivered and delivered["predictions"] == records


def test_each_of_several_models_has_samples(tmp_path: Path, configured: Configured) -> None:
    models = {"bayes": {"type": "naive_bayes", "features": {}}, "before": {"type": "no_change"}}
    steps = [{"type": "classify", "name": name, "from": "source", "model": model} for name, model in models.items()]
    run = Run(configured(pipeline={"steps": steps}), tmp_path / "run")
    summary = run.start(records=900)
    accuracies = {name: run.value("millstream_accuracy", step=name) for name in models}
    assert accuracies == {name: each["accuracy"] for name, each in summary.steps.items()}
    assert accuracies["bayes"] > accuracies["before"]
    for name in models:
        assert run.value("millstream_labelled_records_total", step=name) == 900
        assert run.value("millstream_baseline_accuracy", step=name, baseline="no_change") == accuracies["before"]


def test_records_repeated_after_a_crash_have_their_own_counter(run: Run) -> None:
    with pytest.raises(Crash):
        run.start(crash=CrashPoint.parse("deliver@3"))
    assert run.value("millstream_repeated_records_total") == 0
    summary = run.start(records=300)
    assert run.value("millstream_repeated_records_total") == 300 == summary.processed - summary.records
    assert run.value("millstream_rows_total", output="predictions") == summary.delivered["predictions"]


def test_rejects_are_counted(tmp_path: Path, configured: Configured) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a goal", "label": "sport", "time": 1}\nno json\n' * 2)
    run = Run(configured(source={"type": "files", "path": "a.jsonl"}), tmp_path / "run")
    run.start()
    assert run.value("millstream_records_total") == 4
    assert run.value("millstream_rejects_total") == 2 == run.value("millstream_rows_total", output="rejects")


def test_the_watermark_of_each_step_and_the_partition_that_holds_it_have_samples(
    tmp_path: Path, configured: Configured
) -> None:
    for name, time in (("a", 5000), ("b", 9000)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": "a goal", "label": "sport", "time": time}) + "\n")
    source = {"type": "files", "path": "*.jsonl"}
    run = Run(configured(source={**source, "idle": None}), tmp_path / "waits")
    run.start()
    assert run.value("millstream_watermark_timestamp_seconds", step="popularity") == 5000
    since = run.value("millstream_watermark_held_timestamp_seconds", source="source", partition="a.jsonl")
    assert since == next(EpochReader(tmp_path / "waits/epochs").epochs()).at / 1e6
    run = Run(configured(source={**source, "ends": True}), tmp_path / "ended")
    run.start()
    assert run.value("millstream_watermark_timestamp_seconds", step="popularity") == math.inf
    assert run.samples("millstream_watermark_held_timestamp_seconds") == []


def test_the_backlog_is_the_number_of_offsets_not_yet_cut(run: Run) -> None:
    class ReadMetrics:
        """The local engine, which reads the metrics after every cut."""

        def run(self, job: Job) -> None:
            admit = job.backpressure.admit

            def admit_and_read(epoch: Any) -> None:
                admit(epoch)
                seen.append((run.value("millstream_epochs_in_flight"), run.value("millstream_backlog_records")))

            job.backpressure.admit = admit_and_read  # type: ignore[method-assign]
            LocalEngine().run(job)

    seen: list[tuple[float, float]] = []
    run.start(ReadMetrics())
    assert seen == [(min(epoch, 2), 3000 - 300 * epoch) for epoch in range(1, 11)]  # one epoch is read ahead
    assert run.value("millstream_epochs_in_flight") == run.value("millstream_backlog_records") == 0


def test_a_value_that_is_unknown_has_no_sample(run: Run, tmp_path: Path, configured: Configured) -> None:
    run.start()
    replay = Run(configured(), tmp_path / "replay")
    replay.start(replay=tmp_path / "run")
    assert replay.samples("millstream_epochs_total") and not replay.samples("millstream_backlog_records")


def test_every_epoch_that_was_cut_in_this_start_is_in_the_histogram_of_latencies(run: Run) -> None:
    with pytest.raises(Crash):
        run.start(crash=CrashPoint.parse("deliver@3"))
    run.start()
    counts = run.samples("millstream_epoch_latency_seconds_bucket")
    assert counts == sorted(counts) and counts[-1] == 10 - 5  # the fifth epoch was read ahead
    assert counts[-1] == run.value("millstream_epoch_latency_seconds_count")
    assert run.value("millstream_epoch_latency_seconds_sum") > 0


def test_the_latency_of_an_epoch_that_restarts_counts_once_and_begins_at_its_cut(
    tmp_path: Path, configured: Configured
) -> None:
    class RestartTwoEpochs:
        """Finishes two epochs and cuts a third, then restarts from the beginning, before the first checkpoint."""

        def run(self, job: Job) -> None:
            feed = SingleProcessFeed(job)
            job.lifecycle.start(feed)
            for number in range(3):
                epoch = job.cutter.cut(float(number))
                assert epoch is not None
                if number < 2:
                    feed.offer(epoch)
                    job.lifecycle.take(feed.ready(0.0))
                    job.backpressure.release(number)
            before = job.backpressure.age(2)
            assert len(list(job.cut_epochs(job.lifecycle.start(feed)))) == 3
            again = job.backpressure.age(2)
            assert before is not None and again is not None and again > before
            LocalEngine().run(job)

    run = Run(configured(guarantee={"checkpoint_every": 4}), tmp_path / "run")
    assert run.start(RestartTwoEpochs()).records == 3000
    assert run.value("millstream_repeated_records_total") == 600
    assert run.value("millstream_epoch_latency_seconds_count") == run.value("millstream_epochs_total") == 10


def test_checkpoints_are_timed_and_the_last_one_is_known_after_a_restart(run: Run, tmp_path: Path) -> None:
    run.start()
    assert run.value("millstream_checkpoint_seconds_count") >= 1
    assert run.value("millstream_checkpoint_seconds_sum") > 0
    newest = read_newest(tmp_path / "run", lambda checkpoint, _: checkpoint)
    assert newest is not None and newest.size > 1_000
    for _ in range(2):
        assert run.value("millstream_last_checkpoint_bytes") == newest.size
        assert run.value("millstream_last_checkpoint_timestamp_seconds") == newest.at / 1e6
        run.start()  # no record is new, so it writes no checkpoint
    assert run.value("millstream_checkpoint_seconds_count") == 0


def test_restarts_of_workers_are_counted(run: Run) -> None:
    class Restarting:
        def run(self, job: Job) -> None:
            LocalEngine().run(job)
            job.lifecycle.observer.restarted("worker 1 was killed by signal 9")

    run.start(Restarting())
    assert run.value("millstream_worker_restarts_total") == 1
    assert run.stats is not None and run.stats.run_stats().last_restart == "worker 1 was killed by signal 9"


def test_the_text_has_the_help_and_type_of_each_metric(run: Run) -> None:
    run.start(records=300)
    declared = [line for line in generate_latest(run.registry).decode().splitlines() if line.startswith("#")]
    assert declared == [line for m in METRICS for line in (f"# HELP {m.name} {m.meaning}", f"# TYPE {m.name} {m.kind}")]


def test_the_info_metric_has_engine_delivery_and_version(run: Run) -> None:
    run.start(records=300)
    assert run.value("millstream_info", engine="local", delivery="exactly_once", version="1.2.3") == 1


def test_names_follow_prometheus_conventions() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"millstream_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind != "histogram" or metric.name.endswith("_seconds")

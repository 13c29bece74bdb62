"""The metrics of a run for Prometheus.

A counter that is a total of the epoch log counts over all starts in a run directory; others count in this start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from millstream.log.epochs import Scores, Totals
from millstream.runs.watch.histogram import Histogram
from millstream.runs.watch.observer import Watched
from millstream.runs.watch.run_stats import StatsCollector

__all__ = ["METRICS", "Metric", "RunCollector"]

Values = Mapping[tuple[str, ...], float]
"""Values by the labels that a metric has besides the pipeline."""


@dataclass(frozen=True, eq=False)  # a registry needs collectors that can be hashed
class RunCollector(Collector):
    """Reads all metrics of a run when Prometheus asks for them."""

    watched: Watched
    stats: StatsCollector
    version: str

    def collect(self) -> Iterator[Family]:
        pipeline = self.watched.loaded.config.name
        return (metric.family(pipeline, metric.read(self)) for metric in METRICS)

    @property
    def totals(self) -> Totals:
        return self.watched.epoch_log.totals

    @property
    def rows(self) -> Values:
        rows = self.totals.rows
        return {(output,): rows.get(output, 0) for output in self.watched.graph.outputs}

    @property
    def watermarks(self) -> Values:
        times = self.totals.watermarks
        return {(step,): math.inf if time is None else time / 1e6 for step, time in times.items()}

    @property
    def held(self) -> Values:
        totals = self.totals
        if totals.held_by is None:
            return {}
        partition = totals.partitions[totals.held_by]
        return {(partition.source, partition.name): totals.held_since / 1e6}

    def of_steps(self, read: Callable[[Scores], float | None]) -> Values:
        """A value for each step that has predicted labelled records."""
        values = {(step,): read(scores) for step, scores in dict(self.totals.scores).items()}
        return {labels: value for labels, value in values.items() if value is not None}

    def of_baselines(self, read: Callable[[Scores], Mapping[str, float] | None]) -> Values:
        """A value for each such step and each baseline."""
        found = {step: read(scores) or {} for step, scores in dict(self.totals.scores).items()}
        return {(step, name): value for step, values in found.items() for name, value in values.items()}

    @property
    def versions(self) -> Values:
        """1 for each step that a registered version has entered, with the address of the version."""
        running = dict(self.totals.models.versions)
        return {(step, entered.version): 1 for step, entered in running.items()}

    @property
    def trials(self) -> Values:
        """The accuracies of each champion and of its shadow, since the shadow entered."""
        values = {
            (step, name): scores.accuracy
            for step, trial in dict(self.totals.models.trials).items()
            for name, scores in (("champion", trial.champion), ("shadow", trial.shadow))
        }
        return {labels: value for labels, value in values.items() if value is not None}

    @property
    def information(self) -> Values:
        config = self.watched.loaded.config
        return {(config.engine.type, str(config.guarantee.delivery), self.version): 1}


@dataclass(frozen=True)
class Metric:
    """One metric: name, type, meaning, the function that reads its value (None: no value yet), and its labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    read: Callable[[RunCollector], float | Histogram | Values | None]
    labels: tuple[str, ...] = ()

    def family(self, pipeline: str, value: float | Histogram | Values | None) -> Family:
        """The metric and its samples, as `prometheus_client` writes them."""
        labels = ("pipeline", *self.labels)
        if isinstance(value, Histogram):
            histogram = HistogramMetricFamily(self.name, self.meaning, labels=labels)
            histogram.add_metric([pipeline], *value.cumulative())
            return histogram
        family_type = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = family_type(self.name, self.meaning, labels=labels)
        values = {(): value} if isinstance(value, float | int) else value or {}
        for label_values, number in values.items():
            family.add_metric([pipeline, *label_values], number)
        return family


METRICS = (
    Metric(
        "millstream_info",
        "gauge",
        "Always 1; the labels have the engine, the delivery and the version.",
        lambda run: run.information,
        ("engine", "delivery", "version"),
    ),
    Metric(
        "millstream_records_total",
        "counter",
        "Records that were read, rejects included; each counts once.",
        lambda run: run.totals.records,
    ),
    Metric(
        "millstream_repeated_records_total",
        "counter",
        "Records that were processed again after a crash.",
        lambda run: run.totals.processed - run.totals.records,
    ),
    Metric(
        "millstream_rejects_total",
        "counter",
        "Records that could not be read, or that a step rejected.",
        lambda run: run.totals.rejects,
    ),
    Metric(
        "millstream_labelled_records_total",
        "counter",
        "Records that were predicted and had a label.",
        lambda run: run.of_steps(lambda scores: scores.labelled),
        ("step",),
    ),
    Metric(
        "millstream_correct_records_total",
        "counter",
        "Records whose prediction was right.",
        lambda run: run.of_steps(lambda scores: scores.correct),
        ("step",),
    ),
    Metric(
        "millstream_accuracy",
        "gauge",
        "The share of labelled records whose prediction was right, over all starts.",
        lambda run: run.of_steps(lambda scores: scores.accuracy),
        ("step",),
    ),
    Metric(
        "millstream_model_version",
        "gauge",
        "Always 1; the labels have the registered version in the model of a step.",
        lambda run: run.versions,
        ("step", "version"),
    ),
    Metric(
        "millstream_shadow_accuracy",
        "gauge",
        "The share of labelled records predicted right, since the shadow of a step entered, by champion and shadow.",
        lambda run: run.trials,
        ("step", "model"),
    ),
    Metric(
        "millstream_baseline_correct_records_total",
        "counter",
        "Records that a baseline predicted right: the previous label (no_change) or the most common label (majority).",
        lambda run: run.of_baselines(lambda scores: scores.baselines.counts()),
        ("step", "baseline"),
    ),
    Metric(
        "millstream_baseline_accuracy",
        "gauge",
        "The accuracy of a baseline, which does not read the records.",
        lambda run: run.of_baselines(lambda scores: scores.baseline_accuracies),
        ("step", "baseline"),
    ),
    Metric(
        "millstream_rows_total",
        "counter",
        "Rows of an output; rows that are made again after a crash do not count.",
        lambda run: run.rows,
        ("output",),
    ),
    Metric(
        "millstream_epochs_total",
        "counter",
        "Epochs that were processed; each counts once.",
        lambda run: run.totals.epochs,
    ),
    Metric(
        "millstream_epochs_in_flight",
        "gauge",
        "Epochs that are cut and not yet done.",
        lambda run: run.watched.backpressure.in_flight,
    ),
    Metric(
        "millstream_backlog_records",
        "gauge",
        "Offsets in the sources that are not yet cut.",
        lambda run: run.watched.cutter.behind,
    ),
    Metric(
        "millstream_watermark_timestamp_seconds",
        "gauge",
        "The event time up to which a step has passed everything on, in seconds since 1970; +Inf after the end.",
        lambda run: run.watermarks,
        ("step",),
    ),
    Metric(
        "millstream_watermark_held_timestamp_seconds",
        "gauge",
        "The time since which this partition has held the watermark at its present value, in seconds since 1970.",
        lambda run: run.held,
        ("source", "partition"),
    ),
    Metric(
        "millstream_epoch_latency_seconds",
        "histogram",
        "The time from the cut of an epoch until it is done, in this start.",
        lambda run: run.stats.latency,
    ),
    Metric(
        "millstream_checkpoint_seconds",
        "histogram",
        "The time to write a checkpoint, in this start.",
        lambda run: run.stats.checkpoint_seconds,
    ),
    Metric(
        "millstream_last_checkpoint_timestamp_seconds",
        "gauge",
        "The time at which the last checkpoint was written, in seconds since 1970.",
        lambda run: checkpoint.at if (checkpoint := run.stats.last_checkpoint) else None,
    ),
    Metric(
        "millstream_last_checkpoint_bytes",
        "gauge",
        "The size on disk of the state in the last checkpoint.",
        lambda run: checkpoint.size if (checkpoint := run.stats.last_checkpoint) else None,
    ),
    Metric(
        "millstream_worker_restarts_total",
        "counter",
        "The number of restarts of workers, in this start.",
        lambda run: run.stats.restarts,
    ),
)

"""The metrics of a run for Prometheus.

Counters continue over all starts of a run directory if the epoch log has totals of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from millstream.log.epochs import Totals
from millstream.runs.watch.histogram import Histogram
from millstream.runs.watch.observer import Watched
from millstream.runs.watch.run_stats import StatsCollector

__all__ = ["METRICS", "Metric", "RunCollector"]

Values = Mapping[tuple[str, ...], float]
"""Values by the labels that a metric has besides the pipeline."""


@dataclass(frozen=True, eq=False)  # a registry keeps collectors by their hash
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


def _by_baseline(values: Mapping[str, float] | None) -> Values | None:
    return {(name,): value for name, value in values.items()} if values else None


METRICS = (
    Metric(
        "millstream_info",
        "gauge",
        "Always 1; its labels say which engine, delivery and version.",
        lambda run: run.information,
        ("engine", "delivery", "version"),
    ),
    Metric(
        "millstream_records_total",
        "counter",
        "Records read, rejects included, each counted once.",
        lambda run: run.totals.records,
    ),
    Metric(
        "millstream_repeated_records_total",
        "counter",
        "Records processed once more after a crash.",
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
        lambda run: run.totals.labelled,
    ),
    Metric(
        "millstream_correct_records_total",
        "counter",
        "Records that were predicted right.",
        lambda run: run.totals.correct,
    ),
    Metric(
        "millstream_accuracy",
        "gauge",
        "The share of labelled records that were predicted right, over the life of the run directory.",
        lambda run: run.totals.accuracy,
    ),
    Metric(
        "millstream_baseline_correct_records_total",
        "counter",
        "Records that would have been right with the label before (no_change), or the most common so far (majority).",
        lambda run: _by_baseline(counts.counts()) if (counts := run.totals.baselines) else None,
        ("baseline",),
    ),
    Metric(
        "millstream_baseline_accuracy",
        "gauge",
        "What the accuracy would be with those, without reading the records.",
        lambda run: _by_baseline(run.totals.baseline_accuracies),
        ("baseline",),
    ),
    Metric(
        "millstream_rows_total",
        "counter",
        "Rows made, by output; those made once more after a crash are not counted.",
        lambda run: run.rows,
        ("output",),
    ),
    Metric(
        "millstream_epochs_total",
        "counter",
        "Epochs processed, each counted once.",
        lambda run: run.totals.epochs,
    ),
    Metric(
        "millstream_epochs_in_flight",
        "gauge",
        "Epochs that are cut and not yet through.",
        lambda run: run.watched.backpressure.in_flight,
    ),
    Metric(
        "millstream_backlog_records",
        "gauge",
        "Offsets that are there and not yet cut.",
        lambda run: run.watched.cutter.behind,
    ),
    Metric(
        "millstream_epoch_latency_seconds",
        "histogram",
        "From the cut of an epoch until it is through, in this start.",
        lambda run: run.stats.latency,
    ),
    Metric(
        "millstream_checkpoint_seconds",
        "histogram",
        "What writing a save took, in this start.",
        lambda run: run.stats.saving,
    ),
    Metric(
        "millstream_last_checkpoint_timestamp_seconds",
        "gauge",
        "When the last checkpoint was written, in seconds since 1970.",
        lambda run: checkpoint.at if (checkpoint := run.stats.last_checkpoint) else None,
    ),
    Metric(
        "millstream_last_checkpoint_bytes",
        "gauge",
        "How large the last checkpoint is on disk.",
        lambda run: checkpoint.size if (checkpoint := run.stats.last_checkpoint) else None,
    ),
    Metric(
        "millstream_worker_restarts_total",
        "counter",
        "How often workers were started anew, in this start.",
        lambda run: run.stats.restarts,
    ),
)

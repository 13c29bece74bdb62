"""What a run tells Prometheus. What the epoch log has totals of goes on over all starts of a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from millstream.log.epochs import Totals
from millstream.runs.exposition import Histogram, Samples, family
from millstream.runs.observer import Watched
from millstream.runs.pulse import Pulse

__all__ = ["METRICS", "Metric", "Page"]


@dataclass(frozen=True)
class Page:
    """All metrics of a run at the moment of the call, as Prometheus reads them."""

    watched: Watched
    pulse: Pulse
    version: str

    def __call__(self) -> str:
        pipeline = self.watched.loaded.config.name
        lines = (
            line
            for metric in METRICS
            for line in family(metric.name, metric.kind, metric.meaning, _samples(metric.read(self), pipeline))
        )
        return "\n".join([*lines, ""])

    @property
    def totals(self) -> Totals:
        return self.watched.epoch_log.totals

    @property
    def rows(self) -> Samples:
        rows = self.totals.rows
        return [("", {"output": output}, rows.get(output, 0)) for output in self.watched.graph.outputs]

    @staticmethod
    def by_baseline(values: Mapping[str, float]) -> Samples:
        return [("", {"baseline": name}, value) for name, value in values.items()]

    @property
    def information(self) -> Samples:
        config = self.watched.loaded.config
        told = {"engine": config.engine.type, "delivery": str(config.guarantee.delivery), "version": self.version}
        return [("", told, 1)]


@dataclass(frozen=True)
class Metric:
    """One metric: its name, its type, what it means, and where its value is; None if there is none yet."""

    name: str
    kind: str
    meaning: str
    read: Callable[[Page], float | Histogram | Samples | None]


def _samples(value: float | Histogram | Samples | None, pipeline: str) -> Samples:
    """With the label that all have."""
    samples: Samples
    if isinstance(value, Histogram):
        samples = value.samples({})
    elif isinstance(value, float | int):
        samples = [("", {}, value)]
    else:
        samples = value or []
    return [(suffix, {"pipeline": pipeline, **labels}, number) for suffix, labels, number in samples]


METRICS = (
    Metric(
        "millstream_info",
        "gauge",
        "Always 1; its labels say which engine, delivery and version.",
        lambda page: page.information,
    ),
    Metric(
        "millstream_records_total",
        "counter",
        "Records read, rejects included, each counted once.",
        lambda page: page.totals.records,
    ),
    Metric(
        "millstream_repeated_records_total",
        "counter",
        "Records processed once more after a crash.",
        lambda page: page.totals.processed - page.totals.records,
    ),
    Metric(
        "millstream_rejects_total",
        "counter",
        "Records that could not be read, or that a step rejected.",
        lambda page: page.totals.rejects,
    ),
    Metric(
        "millstream_labelled_records_total",
        "counter",
        "Records that were predicted and had a label.",
        lambda page: page.totals.labelled,
    ),
    Metric(
        "millstream_correct_records_total",
        "counter",
        "Records that were predicted right.",
        lambda page: page.totals.correct,
    ),
    Metric(
        "millstream_accuracy",
        "gauge",
        "The share of labelled records that were predicted right, over the life of the run directory.",
        lambda page: page.totals.accuracy,
    ),
    Metric(
        "millstream_baseline_correct_records_total",
        "counter",
        "Records that would have been right with the label before (no_change), or the most common so far (majority).",
        lambda page: page.by_baseline(counts.counts()) if (counts := page.totals.baselines) else None,
    ),
    Metric(
        "millstream_baseline_accuracy",
        "gauge",
        "What the accuracy would be with those, without reading the records.",
        lambda page: page.by_baseline(shares) if (shares := page.totals.baseline_accuracies) else None,
    ),
    Metric(
        "millstream_rows_total",
        "counter",
        "Rows made, by output; those made once more after a crash are not counted.",
        lambda page: page.rows,
    ),
    Metric(
        "millstream_epochs_total",
        "counter",
        "Epochs processed, each counted once.",
        lambda page: page.totals.epochs,
    ),
    Metric(
        "millstream_epochs_in_flight",
        "gauge",
        "Epochs that are cut and not yet through.",
        lambda page: page.watched.backpressure.in_flight,
    ),
    Metric(
        "millstream_backlog_records",
        "gauge",
        "Offsets that are there and not yet cut.",
        lambda page: page.watched.cutter.behind,
    ),
    Metric(
        "millstream_epoch_latency_seconds",
        "histogram",
        "From the cut of an epoch until it is through, in this start.",
        lambda page: page.pulse.latency,
    ),
    Metric(
        "millstream_save_seconds",
        "histogram",
        "What writing a save took, in this start.",
        lambda page: page.pulse.saving,
    ),
    Metric(
        "millstream_last_save_timestamp_seconds",
        "gauge",
        "When the last save was written, in seconds since 1970.",
        lambda page: save.at if (save := page.pulse.last_save) else None,
    ),
    Metric(
        "millstream_last_save_bytes",
        "gauge",
        "How large the last save is on disk.",
        lambda page: save.size if (save := page.pulse.last_save) else None,
    ),
    Metric(
        "millstream_worker_restarts_total",
        "counter",
        "How often workers were started anew, in this start.",
        lambda page: page.pulse.restarts,
    ),
)

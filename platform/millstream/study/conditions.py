"""The conditions of a pipeline on which the effects of its failures depend: config, stream and failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.config.durations import format_duration
from millstream.config.load import Loaded
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.validation import checked_graph
from millstream.registry.config_versions import fetch_versions
from millstream.steps.classify import Classify
from millstream.steps.popularity import Popularity
from millstream.study.evidence import evidence
from millstream.study.label_sample import LabelSample, NoSample, label_sample
from millstream.substreams.windows import CountWindow, SlidingWindow, TumblingWindow

__all__ = ["MONTH", "Conditions", "Window", "conditions_of"]

MONTH = 365.25 / 12 * 86_400
"""The seconds of a month."""
FAILURES_PER_MONTH = 4.0
"""The assumed number of failures a month: one a week."""
RECORDS_PER_SECOND = 100.0
"""The assumed rate of a stream whose records have no times."""
SAMPLED = 100_000
"""The most records whose labels are read."""
_MICROS = 1_000_000
_HOUR = 3600


@dataclass(frozen=True)
class Window:
    """The window in which the effect of one failure is computed; `threshold` is None if nothing is popular in it."""

    name: str
    records: int
    threshold: float | None


@dataclass(frozen=True)
class Conditions:
    """Everything that decides the effect of failures on one pipeline.

    `at_once` is true if the source has all its records at once, so that epochs are full. `epoch_records` is the number
    of records in an epoch, `waiting` the share of the time in which the run waits for records. `learner` has the
    options of the model, None without one. `impossible` is the reason why exactly_once is refused, empty if it is not.
    `rate_from` says where `records_per_second` comes from, `failures_assumed` that `failures_per_month` was not given.
    """

    name: str
    delivery: Delivery
    engine: str
    checkpoint_every: int
    commit_every: int
    at_once: bool
    epoch_records: int
    waiting: float
    learner: Mapping[str, Any] | None
    impossible: str
    records_per_second: float
    rate_from: str
    failures_per_month: float
    failures_assumed: bool
    window: Window
    sample: LabelSample | NoSample

    @property
    def records_per_month(self) -> float:
        return self.records_per_second * MONTH


def conditions_of(
    loaded: Loaded, failures_per_month: float | None = None, records_per_second: float | None = None
) -> Conditions:
    """Return the conditions of a config; `ConfigError` if it is not valid. The sources are read once."""
    loaded, _ = fetch_versions(loaded)
    graph = checked_graph(loaded, packages=False)
    config = loaded.config
    classify = next((step.config for step in config.steps if isinstance(step.config, Classify)), None)
    sample: LabelSample | NoSample = NoSample("the pipeline has no model, so there are no labels")
    if classify is not None:
        sample = label_sample(loaded, classify.label, SAMPLED)
    rate, rate_from = _rate(loaded, sample, records_per_second)
    at_once = all(source.config.bounded for source in config.logs)
    epoch_records, waiting = _full_epochs(loaded, sample) if at_once else _epochs(loaded, rate)
    return Conditions(
        name=config.name,
        delivery=Delivery(config.guarantee.delivery),
        engine=config.engine.type,
        checkpoint_every=config.guarantee.checkpoint_every,
        commit_every=config.guarantee.commit_every,
        at_once=at_once,
        epoch_records=epoch_records,
        waiting=waiting,
        learner=None if classify is None else classify.model.model_dump(mode="json"),
        impossible=next(
            (f"step {node.name!r} is not deterministic" for node in graph.steps if not node.traits.deterministic), ""
        ),
        records_per_second=rate,
        rate_from=rate_from,
        failures_per_month=FAILURES_PER_MONTH if failures_per_month is None else failures_per_month,
        failures_assumed=failures_per_month is None,
        window=_window(loaded, rate),
        sample=sample,
    )


def _rate(loaded: Loaded, sample: LabelSample | NoSample, given: float | None) -> tuple[float, str]:
    if given is not None:
        return given, "given"
    rates = [getattr(source.config, "rate", None) for source in loaded.config.logs]
    known = [float(rate) for rate in rates if rate is not None]
    if known and len(known) == len(rates):
        return sum(known), "the source's rate"
    if isinstance(sample, LabelSample) and sample.records_per_second is not None:
        return sample.records_per_second, "the records' times"
    return RECORDS_PER_SECOND, "assumed"


def _full_epochs(loaded: Loaded, sample: LabelSample | NoSample) -> tuple[int, float]:
    """Return the number of records in an epoch, and the share of the time in which the run waits: none."""
    most = loaded.config.engine.epoch.max_records
    return min(most, sample.records) if isinstance(sample, LabelSample) and sample.whole else most, 0.0


def _epochs(loaded: Loaded, rate: float) -> tuple[int, float]:
    """Return the number of records in an epoch of a stream, and the share of the time in which the run waits for some.

    An epoch has the records that arrive while the first one waits and the epoch before is processed.
    """
    epoch = loaded.config.engine.epoch
    measured = evidence().latency_of(loaded.config.engine.type, Delivery.EXACTLY_ONCE)
    busy = (measured.p50_ms or 0.0) / 1000 if measured is not None else 0.0
    records = min(float(epoch.max_records), max(1.0, rate * (epoch.max_wait / _MICROS + busy)))
    return round(records), max(0.0, 1 - busy * rate / records)


def _window(loaded: Loaded, rate: float) -> Window:
    """Return the window of the pipeline's popularity; an hour if it has none of a fixed length."""
    for step in loaded.config.steps:
        if isinstance(step.config, Popularity) and step.config.by is None:
            window, threshold = step.config.window, step.config.threshold
            if isinstance(window, CountWindow):
                return Window(f"window of {window.size:,} records", window.size, threshold)
            if not isinstance(window, SlidingWindow | TumblingWindow):
                continue  # the records in a session depend on its content
            records = max(1, round(rate * window.size / _MICROS))
            return Window(f"window of {format_duration(window.size)}", records, threshold)
    return Window("hour", max(1, round(rate * _HOUR)), None)

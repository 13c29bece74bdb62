"""The text of advice: a table with a column for each guarantee, what it means, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from millstream.guarantees.delivery import Delivery
from millstream.plain_text import short
from millstream.study.advice import Advice, Deviation, Effect, GuaranteeAdvice
from millstream.study.evidence import AccuracyRow, evidence
from millstream.study.label_sample import NoSample

__all__ = ["advice_text"]

_FIRST, _COLUMN = 33, 28
_UNKNOWN = "not measured"
_NEGLIGIBLE = 1e-5
"""Errors of a share below this are all printed alike: a thousandth of a percentage point."""


def advice_text(advice: Advice) -> str:
    """Return the text that `millstream advise` prints, at most 120 characters wide."""
    return "\n".join([*_head(advice), "", *_table(advice), "", *_summary(advice), "", *_limits(advice)])


def _head(advice: Advice) -> Iterator[str]:
    conditions = advice.conditions
    yield (
        f"{conditions.name}: {conditions.delivery} on {conditions.engine}, "
        f"epochs of {_count(conditions.epoch_records, 'record')}, a checkpoint every "
        f"{_count(conditions.checkpoint_every, 'epoch')}, a commit every {_count(conditions.commit_every, 'epoch')}"
    )
    assumed = " (assumed: one a week)" if conditions.failures_assumed else ""
    rate = _amount(f"{conditions.records_per_second:,.4g}", "record")
    failures = _amount(f"{conditions.failures_per_month:g}", "failure")
    yield (
        f"  stream   {rate} a second ({conditions.rate_from}), {conditions.records_per_month:,.0f} a month; "
        f"{failures} a month{assumed}"
    )
    yield f"  labels   {_labels(advice)}"


def _labels(advice: Advice) -> str:
    sample = advice.conditions.sample
    if isinstance(sample, NoSample):
        return f"not measured: {sample.reason}"
    labels = sample.labels
    largest = int(labels.shares.argmax())
    part = "all" if sample.whole else "the first"
    return (
        f"{part} {sample.records:,} records read: {_count(len(labels.names), 'label')}, the largest "
        f"{short(labels.names[largest])!r} with {labels.shares[largest]:.0%}; deff {advice.deff:.3g} in spans of "
        f"{_count(advice.burst_span or 0, 'record')}"
    )


def _table(advice: Advice) -> Iterator[str]:
    conditions = advice.conditions
    where = conditions.window.name

    def row(name: str, cell: Callable[[GuaranteeAdvice], str]) -> str:
        cells = [f"impossible: {each.impossible}" if each.impossible else cell(each) for each in advice.guarantees]
        if any(each.impossible for each in advice.guarantees):
            cells = ["impossible" if text.startswith("impossible") else text for text in cells]
        return f"{name:<{_FIRST}}{' '.join(f'{text:<{_COLUMN}}' for text in cells)}".rstrip()

    yield row("", lambda each: f"{each.delivery}{' *' if each.delivery is conditions.delivery else ''}")
    yield f"after one failure{'':<{_FIRST - 17}}(mean, and the most)"
    yield row("  rows of an output", lambda each: _spans(each, each.rows, "repeated", "missing"))
    yield row("  records in the model", lambda each: _spans(each, each.state, "twice", "never"))
    yield row(f"  error of a share, {where}", lambda each: "")
    yield row("    counted from rows", lambda each: _window(each.rows))
    yield row("    in the model, its windows", lambda each: _window(each.state))
    if conditions.window.threshold is not None:
        yield row("    popular or not: wrong", lambda each: _popular(each.state))
    yield "in a month"
    yield row("  error of a share, from rows", lambda each: _month(each.rows))
    yield row("  error of a share, in the model", lambda each: _month(each.state))
    if conditions.window.threshold is not None:
        yield row("  popular or not: wrong", _popular_in_month)
    if conditions.learner is not None:
        yield row(f"  accuracy of {conditions.learner['type']}", _accuracy)
        for stream in _streams(advice):
            yield row(f"    on {stream}", partial(_accuracy_on, stream=stream))
    yield row("latency, median and 99 %", _latency)
    yield "* this pipeline. An error is a root mean square, in percentage points (pp); most are below twice that."


def _spans(advice: GuaranteeAdvice, effect: Effect, repeated: str, lost: str) -> str:
    if not effect.spans.most:
        return "each once"
    kind = repeated if advice.delivery is Delivery.AT_LEAST_ONCE else lost
    mean = effect.spans.mean
    return (
        f"{mean:,.0f} {kind} (<= {effect.spans.most:,})"
        if mean >= 10
        else f"{mean:.2g} {kind} (<= {effect.spans.most:,})"
    )


def _window(effect: Effect) -> str:
    if not effect.spans.most:
        return "none"
    if effect.window is None:
        return f"at most {_points(effect.window_bound)}" if effect.window_bound < 1 else "unknown"
    whole = f"; whole windows: {effect.window.whole:.0%}" if effect.window.whole else ""
    return f"{_points(effect.window.rms)}{whole}"


def _popular(effect: Effect) -> str:
    if not effect.spans.most:
        return "none"
    if effect.window is None or effect.window.flips is None:
        return "unknown"
    return f"{effect.window.flips:.2%} of labels"


def _popular_in_month(advice: GuaranteeAdvice) -> str:
    """The probability for the label that is nearest to the threshold."""
    if not advice.rows.spans.most:
        return "none"
    if advice.flip is None or advice.flip.probability is None:
        return "unknown"
    return f"{advice.flip.probability:.2%} for the nearest"


def _month(effect: Effect) -> str:
    if not effect.spans.most:
        return "none"
    month: Deviation | None = effect.month
    if month is None:
        return f"at most {_points(effect.bound)}" if effect.bound < 1 else "unknown: too many failures"
    if 0 < month.rms < _NEGLIGIBLE:
        return _points(month.rms)
    if month.low is None or month.high is None:
        return f"{_points(month.rms)} (no interval)"
    return f"{_points(month.rms)} ({_number(100 * month.low)} to {_number(100 * month.high)})"


def _accuracy(advice: GuaranteeAdvice) -> str:
    if advice.delivery is Delivery.EXACTLY_ONCE:
        return "as without failures"
    return "" if advice.accuracy else _UNKNOWN


def _streams(advice: Advice) -> Sequence[str]:
    """The streams on which the learner was measured."""
    return sorted({row.stream for each in advice.guarantees for row in each.accuracy})


def _accuracy_on(advice: GuaranteeAdvice, stream: str) -> str:
    """The range of the intervals on one stream."""
    rows = [row for row in advice.accuracy if row.stream == stream]
    if not rows:
        return ""
    low = min(row.difference - row.half_width for row in rows)
    high = max(row.difference + row.half_width for row in rows)
    return f"{low:+.2f} to {high:+.2f} pp"


def _latency(advice: GuaranteeAdvice) -> str:
    if advice.latency is None:
        return _UNKNOWN
    values = [advice.latency.p50_ms, advice.latency.p99_ms]
    return (
        " / ".join("?" if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in values)
        + " ms"
    )


def _summary(advice: Advice) -> Iterator[str]:
    conditions = advice.conditions
    once, least, most = (advice.of(delivery) for delivery in Delivery)
    if once.impossible:
        yield f"exactly_once is impossible: {once.impossible}."
    else:
        yield f"exactly_once leaves no effect. {_cost(once, least)}"
    for each, rows in ((least, "rows may repeat"), (most, "rows may be missing")):
        yield _enough(each, rows, conditions.window.name)
    if least.rows.spans.most >= conditions.window.records:
        yield f"A failure can cover a whole {conditions.window.name}; smaller epochs repeat and lose less."


def _enough(each: GuaranteeAdvice, rows: str, window: str) -> str:
    """Return what readers must bear for a delivery to be enough, or the reason why that is unknown."""
    effects = [effect for effect in (each.rows, each.state) if effect.spans.most]
    if any(effect.month is None and effect.bound >= 1 for effect in effects):
        return f"Whether {each.delivery} is enough is unknown: there are too many failures for a prediction."
    if any(effect.window is None and effect.window_bound >= 1 for effect in effects):
        return f"Whether {each.delivery} is enough is unknown, as is the error of a share in a {window}."
    errors = [effect.window_bound if effect.window is None else 2 * effect.window.rms for effect in effects]
    most = "up to " if any(effect.window is None for effect in effects) else ""
    share = f" and a share may err by {most}{_points(max(errors))} in a {window}" if errors else ""
    return f"{each.delivery} is enough where, after a failure, {rows}{share}."


def _cost(once: GuaranteeAdvice, least: GuaranteeAdvice) -> str:
    if once.latency is None or least.latency is None or once.latency.p99_ms is None or least.latency.p99_ms is None:
        return "Its cost in latency against the others was not measured on this engine."
    if once.latency.p99_ms <= least.latency.p99_ms:
        return "On this engine it was measured no slower than at_least_once: take it."
    return f"It was measured {once.latency.p99_ms / least.latency.p99_ms:.1f} times as slow as at_least_once (99 %)."


def _limits(advice: Advice) -> Iterator[str]:
    conditions = advice.conditions
    yield "Limits: failures come at random moments and repeats follow at once; shares are those of true labels."
    if conditions.at_once:
        yield "  Epochs are full, because all records of the source are there at once; those of a stream are smaller."
    bound = max(advice.of(delivery).rows.bound for delivery in Delivery)
    if bound < 1:
        yield f"  Failures that always hit one topic move its share by up to {_points(bound)} a month."
    rows = [row for each in advice.guarantees for row in each.accuracy]
    found = evidence()
    if rows:
        yield from _evidence_limits(rows, found.accuracy_command or "")
    elif conditions.learner is not None:
        yield f"  The effect on the accuracy of {conditions.learner['type']} with these options is not measured."
    condition = found.conditions.get(conditions.engine)
    if condition:
        yield f"  Latency was measured with {condition}, by: make bench (docs/benchmarks.md)."
    yield "  docs/advice.md has the formulas and the assumptions."


def _evidence_limits(rows: Sequence[AccuracyRow], command: str) -> Iterator[str]:
    """The conditions under which accuracy was measured."""
    doses = " and ".join(dict.fromkeys(f"{dose:.2%}" for dose in sorted(row.dose for row in rows)))
    seeds = min(row.seeds for row in rows)
    yield f"  Accuracy: 95 % intervals of {seeds} seeds or more with {doses} of the records learned twice or lost,"
    yield f"  on streams of 40,000 records, by: {command} (docs/findings.md). On swap, two labels change places."


def _count(number: int, noun: str) -> str:
    return _amount(f"{number:,}", noun)


def _amount(number: str, noun: str) -> str:
    return f"{number} {noun}{'' if number == '1' else 's'}"


def _points(share: float) -> str:
    return f"{_number(100 * share)} pp"


def _number(value: float) -> str:
    """A number with two digits, or a limit if it is too small to matter.

    >>> _number(0.0), _number(0.00004), _number(0.1234), _number(12.34)
    ('0', '<0.001', '0.12', '12')
    """
    if value == 0:
        return "0"
    return "<0.001" if value < 100 * _NEGLIGIBLE else f"{value:.2g}"

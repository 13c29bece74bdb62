"""`millstream advise`: the effect of failures on a pipeline's results under each guarantee, and their cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.plain_text import json_object

if TYPE_CHECKING:
    from millstream.study.advice import Advice, Effect, GuaranteeAdvice

__all__ = ["advise"]


class _AboveZero(click.FloatRange):
    """A number above 0, at most 1e12; `nan` is refused too, which is neither below nor above a limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if str(value).strip().lower().lstrip("+-") == "nan":
            self.fail(f"{value} is not a number above 0", param, ctx)
        return float(super().convert(value, param, ctx))


_ABOVE_ZERO = _AboveZero(0, 1e12, min_open=True)


@click.command()
@config_options
@click.option(
    "--failures-per-month",
    type=_ABOVE_ZERO,
    metavar="N",
    help="Failures a month, such as kills of the process. Default: 4, one a week.",
)
@click.option(
    "--records-per-second",
    type=_ABOVE_ZERO,
    metavar="N",
    help="Records a second. Default: the rate of a generator, otherwise the rate by the times of the records.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def advise(
    config: str,
    sets: tuple[str, ...],
    overlays: tuple[str, ...],
    failures_per_month: float | None,
    records_per_second: float | None,
    as_json: bool,
) -> None:
    """Predict the effect of failures on the results of CONFIG under each guarantee, and say what each one costs.

    The command reads the labels of the first 100,000 records, if the sources are files or a generator. It runs nothing.
    The effects on shares are computed, accuracy and latency are measured ones, or "not measured".
    """
    from millstream.config.load import load_config
    from millstream.plain_text import printable
    from millstream.study.advice import advise as advise_on
    from millstream.study.conditions import conditions_of

    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    found = advise_on(conditions_of(loaded, failures_per_month, records_per_second))
    click.echo(json_object(_as_object(found)) if as_json else printable(str(found)))


def _as_object(advice: Advice) -> dict[str, Any]:
    """Return the object that `--json` prints; shares and probabilities are parts of 1."""
    conditions = advice.conditions
    return {
        "pipeline": conditions.name,
        "engine": conditions.engine,
        "delivery": str(conditions.delivery),
        "checkpoint_every": conditions.checkpoint_every,
        "commit_every": conditions.commit_every,
        "epoch_records": conditions.epoch_records,
        "records_per_second": conditions.records_per_second,
        "rate_from": conditions.rate_from,
        "failures_per_month": conditions.failures_per_month,
        "labels": _labels(advice),
        "window": {"name": conditions.window.name, "records": conditions.window.records},
        "guarantees": {str(each.delivery): _guarantee(each) for each in advice.guarantees},
    }


def _labels(advice: Advice) -> dict[str, Any]:
    from millstream.study.label_sample import NoSample

    sample = advice.conditions.sample
    if isinstance(sample, NoSample):
        return {"measured": False, "reason": sample.reason}
    shares = dict(zip(sample.labels.names, sample.labels.shares.tolist(), strict=True))
    burst = {"deff": advice.deff, "at_records": advice.burst_span}
    return {
        "measured": True,
        "records": sample.records,
        "whole_source": sample.whole,
        "labelled": sample.labelled,
        "shares": shares,
        "burstiness": burst,
    }


def _guarantee(advice: GuaranteeAdvice) -> dict[str, Any]:
    flip, latency = advice.flip, advice.latency
    return {
        "impossible": advice.impossible or None,
        "rows": _effect(advice.rows),
        "state": _effect(advice.state),
        "popular_wrong_in_month": None if flip is None else flip.probability,
        "popular_refused": flip.refusal or None if flip is not None else None,
        "dose": advice.dose,
        "accuracy": [
            {
                "stream": row.stream,
                "dose": row.dose,
                "difference_pp": row.difference,
                "half_width_pp": row.half_width,
                "seeds": row.seeds,
            }
            for row in advice.accuracy
        ],
        "latency_ms": None if latency is None else {"p50": latency.p50_ms, "p99": latency.p99_ms},
    }


def _effect(effect: Effect) -> Mapping[str, Any]:
    month, window = effect.month, effect.window
    return {
        "records_per_failure": {"mean": effect.spans.mean, "most": effect.spans.most},
        "share_bias_month": None if month is None else {"rms": month.rms, "low": month.low, "high": month.high},
        "share_bias_month_most": effect.bound,
        "share_bias_window": None
        if window is None
        else {
            "rms": window.rms,
            "popular_wrong": window.flips,
            "whole_window": window.whole,
            "windows": window.windows,
        },
    }

"""`ms.advise`: the predicted effect of failures on the results of a config, under each guarantee, and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream import arguments
from millstream.api.argument_names import naming_arguments
from millstream.api.config import Overlays, Source, check_arguments, loaded_of
from millstream.study.advice import Advice
from millstream.study.advice import advise as advise_on
from millstream.study.conditions import conditions_of

__all__ = ["advise"]


def advise(
    config: Source,
    *,
    set: Mapping[str, Any] | None = None,
    overlays: Overlays = (),
    failures_per_month: float | None = None,
    records_per_second: float | None = None,
) -> Advice:
    """Predict the effect of failures under each guarantee, as `millstream advise` does; `print` shows its table.

    The labels of the first 100,000 records are read, if the sources end; nothing runs. Without `failures_per_month`, it
    is 4. Without `records_per_second`, it is the rate of a generator, or the rate by the times of the records.

    >>> config = {"name": "demo", "source": {"type": "generator", "records": 2000}, "pipeline": {"use": "text_topics"}}
    >>> advice = advise(config, failures_per_month=30)
    >>> [round(each.rows.spans.mean) for each in advice.guarantees], round(advice.labels.burstiness(100), 1)
    ([0, 880, 1840], 1.4)
    """
    check_arguments(config, set, overlays)
    failures, rate = (
        None if given is None else arguments.number_above_zero(name, given)
        for name, given in (("failures_per_month", failures_per_month), ("records_per_second", records_per_second))
    )
    with naming_arguments():
        loaded = loaded_of(config, set, overlays)
        with loaded.redacting():
            return advise_on(conditions_of(loaded, failures, rate))

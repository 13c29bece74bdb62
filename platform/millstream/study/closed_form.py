"""The share bias and the flips that the closed form predicts for a trial, with the burstiness of its very stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from millstream.guarantees.delivery import Delivery
from millstream.study.labels import Labels
from millstream.study.share_bias import Spans, bias_bound, bias_sd, flip_probability
from millstream.study.trial import Trial

__all__ = ["ClosedForm"]


class ClosedForm:
    """The closed form for one stream; `threshold` is the share from which a label is popular."""

    def __init__(self, labels: Labels, threshold: float) -> None:
        self._labels, self._threshold = labels, threshold
        self._deff = cache(labels.deff)

    def columns(self, trial: Trial, counts: Mapping[str, int]) -> dict[str, Any]:
        """Return the columns of the result table; null if the closed form does not apply.

        It applies if the failures hit random moments of the whole stream, and rows are repeated or lost. `counts` are
        those of the sequence. The flips are null if they are not known of some label.
        """
        affected = counts["repeated"] or counts["lost"]
        anywhere = trial.placement == "random" and (trial.between_first, trial.between_last) == (0, 1)
        span = max(1, round(affected / max(1, trial.failures)))
        if not (affected and anywhere and span < len(self._labels)):
            return {"deff": None, "closed_form_share_bias": None, "closed_form_flips": None}
        delivery = Delivery.AT_LEAST_ONCE if counts["repeated"] else Delivery.AT_MOST_ONCE
        deff, shares = self._deff(span), self._labels.shares
        sd = bias_sd(delivery, len(self._labels), trial.failures, Spans.of([span]), shares, self._deff, apart=True)
        flips = [
            flip_probability(
                share - self._threshold,
                deviation,
                affected / burstiness if burstiness else np.inf,
                bias_bound(delivery, len(self._labels), affected, share),
            ).probability
            for share, deviation, burstiness in zip(shares.tolist(), sd.tolist(), deff.tolist(), strict=True)
        ]
        known = [flip for flip in flips if flip is not None]
        return {
            "deff": deff.tolist(),
            "closed_form_share_bias": sd.tolist(),
            "closed_form_flips": sum(known) if len(known) == len(flips) else None,
        }

"""One trial of a study: its full description, and the key by which the result table knows it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

__all__ = ["EXACTLY_ONCE", "Trial", "canonical_json"]

EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True)
class Trial:
    """A stream in one order, a learner, the failures of one seed, and a treatment: everything that decides the result.

    `stream` and `learner` are names from the study file; the options of stream, learner and treatment are JSON.
    `simulated` is false for the three deliveries of the platform. A trial without failures has a span of 0. With
    `trained_before`, the learner learns so many other records first, and nothing from the stream.
    """

    stream: str
    stream_config: str
    order_seed: int
    learner: str
    learner_config: str
    treatment: str
    treatment_config: str
    simulated: bool
    checkpoint_every: int
    commit_every: int
    failures: int
    span: int
    placement: str
    topic: str
    between_first: float
    between_last: float
    seed: int
    records: int
    holdout: int
    trained_before: int

    @cached_property
    def key(self) -> str:
        """The digest of the trial's description."""
        return hashlib.blake2b(canonical_json(self.columns()).encode(), digest_size=12).hexdigest()

    def columns(self) -> dict[str, Any]:
        """Return the description as columns of the result table."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and without spaces: equal values have equal texts.

    >>> canonical_json({"b": 1, "a": [1.5]})
    '{"a":[1.5],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

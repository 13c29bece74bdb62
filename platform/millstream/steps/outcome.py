"""The outcome of a run: digests of the state of each step, and the fingerprints of models. Outcomes add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from millstream.digests import Digest
from millstream.state.digests import state_digest
from millstream.state.stored_states import States

__all__ = ["Outcome", "outcome_of", "total"]


@dataclass(frozen=True)
class Outcome:
    """The digest of the state by step, and the fingerprint of each model in this process, by step.

    >>> ann, bob = (outcome_of({"count": {name: b"1"}}) for name in ("ann", "bob"))
    >>> ann + bob == outcome_of({"count": {"ann": b"1", "bob": b"1"}})
    True
    """

    states: Mapping[str, Digest] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Outcome) -> Outcome:
        steps = {**self.states, **other.states}
        states = {step: self.states.get(step, Digest()) + other.states.get(step, Digest()) for step in steps}
        return Outcome(states, {**self.models, **other.models})

    @property
    def model(self) -> str | None:
        """The fingerprint of the first model; None without a model."""
        return next(iter(self.models.values()), None)

    @property
    def digest(self) -> Digest:
        """The digest of all state."""
        return sum(self.states.values(), Digest())


def outcome_of(states: States, models: Mapping[str, str] | None = None) -> Outcome:
    """The outcome of the states in one process."""
    return Outcome({step: state_digest(state, step) for step, state in states.items()}, models or {})


def total(outcomes: Iterable[Outcome]) -> Outcome:
    """The sum of the outcomes of several processes."""
    return reduce(Outcome.__add__, outcomes, Outcome())

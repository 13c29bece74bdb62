"""The outcome of a run: digests of the state of each step, and the fingerprint of the model. Outcomes add up."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from millstream.state.digests import state_digest
from millstream.state.dirty_rows import Value
from millstream.state.keyed_state import KeyedSnapshot
from millstream.state.stored_states import States

__all__ = ["Outcome", "outcome_of"]

_BITS = 128


@dataclass(frozen=True)
class Outcome:
    """The digest of the state by step, and the fingerprint of the model if this process has it.

    >>> ann, bob = (outcome_of({"count": {name: b"1"}}, None) for name in ("ann", "bob"))
    >>> ann + bob == outcome_of({"count": {"ann": b"1", "bob": b"1"}}, None)
    True
    """

    states: Mapping[str, int] = field(default_factory=dict)
    model: str | None = None

    def __add__(self, other: Outcome) -> Outcome:
        steps = {**self.states, **other.states}
        states = {step: (self.states.get(step, 0) + other.states.get(step, 0)) % (1 << _BITS) for step in steps}
        return Outcome(states, self.model or other.model)

    @property
    def digest(self) -> str:
        """The digest of all state."""
        return f"{sum(self.states.values()) % (1 << _BITS):032x}"


def outcome_of(states: States, model: str | None) -> Outcome:
    """The outcome of the states in one process."""
    return Outcome({step: _sum(step, state) for step, state in states.items()}, model)


def total(outcomes: Iterable[Outcome]) -> Outcome:
    return reduce(Outcome.__add__, outcomes, Outcome())


def _sum(step: str, state: Mapping[str, Value]) -> int:
    entries: Iterable[tuple[str, Value]] = state.in_order() if isinstance(state, KeyedSnapshot) else state.items()
    hashes = (hashlib.sha256(f"{step}\0{state_digest({name: value})}".encode()) for name, value in entries)
    return sum(int.from_bytes(each.digest()[:16], "little") for each in hashes) % (1 << _BITS)

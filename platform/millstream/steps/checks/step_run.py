"""The life of a step, epoch by epoch, as an engine would lead it, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.log.baselines import Baselines
from millstream.records import RANK, digest_of, in_step_order
from millstream.state.digests import state_digest
from millstream.steps.contracts import Result, State, Step, StepConfig
from millstream.substreams.event_time import EventTime, latest_times

__all__ = ["Life", "difference", "live", "whole"]


@dataclass(frozen=True)
class Life:
    """All that a step made of its records, and what it remembers in the end."""

    records: pa.Table
    outputs: Mapping[str, pa.Table]
    correct: int
    labelled: int
    baselines: Baselines
    state: State

    @property
    def counts(self) -> str:
        return f"{self.correct} correct of {self.labelled} labelled, {self.baselines} without reading them"

    def digest(self) -> str:
        parts = [digest_of([self.records]), *(name + digest_of([self.outputs[name]]) for name in sorted(self.outputs))]
        parts += [self.counts, state_digest(self.state)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def whole(epoch: pa.Table) -> Iterable[pa.Table]:
    """An epoch as one batch."""
    return [epoch]


def live(
    config: StepConfig,
    epochs: Sequence[pa.Table],
    cut: Callable[[pa.Table], Iterable[pa.Table]] = whole,
    edge: Callable[[Step], Step] = lambda step: step,
    order: Callable[[pa.Table], pa.Table] = in_step_order,
) -> Life:
    """Take a step of this config through epochs: `cut` into batches, with what `edge` makes of it at the end of each.

    Event time moves at the edges of epochs, and after the last of them nothing more comes.
    """
    step = config.build(epochs[0].schema)
    clock = EventTime()
    results: list[Result] = []
    for number, epoch in enumerate(epochs, start=1):
        ranks = np.unique(epoch[RANK].to_numpy()).tolist()
        for rank in ranks:
            clock.join(rank)
        clock.observe(latest_times(epoch))
        results += [step.process(batch) for batch in cut(order(epoch))]
        ended = clock.edge(list(clock.greatest) if number == len(epochs) else ())
        if ended is not None and "time" in step.traits.ends:
            results.append(step.ended(ended))
        step = edge(step)
    made = [result.records for result in results]
    outputs = {}
    for output in step.outputs:
        rows = [result.outputs[output.name] for result in results if output.name in result.outputs]
        outputs[output.name] = pa.concat_tables(
            [output.schema.empty_table(), *(row.cast(output.schema) for row in rows)]
        )
    correct, labelled = sum(result.correct for result in results), sum(result.labelled for result in results)
    baselines = sum((result.baselines for result in results), Baselines())
    return Life(pa.concat_tables(made), outputs, correct, labelled, baselines, step.save())


def difference(one: Life, other: Life) -> str | None:
    """The first thing in which two lives differ, or none."""
    tables = {"the records": (one.records, other.records)}
    tables |= {f"the output {name!r}": (one.outputs[name], other.outputs[name]) for name in one.outputs}
    for name, (left, right) in tables.items():
        found = _in_tables(left, right)
        if found is not None:
            return f"{name}: {found}"
    if one.counts != other.counts:
        return f"the counts: {one.counts}, then {other.counts}"
    return in_states(one.state, other.state)


def in_states(one: State, other: State) -> str | None:
    """The first name under which two states differ, or none."""
    if sorted(one) != sorted(other):
        return f"the names in the state: {sorted(one)}, then {sorted(other)}"
    for name in sorted(one):
        if state_digest({name: one[name]}) != state_digest({name: other[name]}):
            return f"{name!r} in the state: {_shown(one[name])}, then {_shown(other[name])}"
    return None


def _in_tables(one: pa.Table, other: pa.Table) -> str | None:
    if one.column_names != other.column_names:
        return f"columns {one.column_names}, then {other.column_names}"
    if one.num_rows != other.num_rows:
        return f"{one.num_rows} rows, then {other.num_rows}"
    if digest_of([one]) == digest_of([other]):
        return None
    for row in range(one.num_rows):
        for name in one.column_names:
            left, right = one.slice(row, 1).select([name]), other.slice(row, 1).select([name])
            if digest_of([left]) != digest_of([right]):
                return f"row {row} of {name!r}: {_shown(left[name][0].as_py())}, then {_shown(right[name][0].as_py())}"
    return f"types {one.schema.types}, then {other.schema.types}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."

"""A run of one step over epochs, as an engine would run it, and the comparison of two runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.digests import row_hashes
from millstream.log.epochs import Baselines
from millstream.records import OFFSET, PATH, RANK, in_step_order
from millstream.state.digests import state_digest
from millstream.steps.boundary_order import in_order_at_end
from millstream.steps.contracts import FindsLateRecords, Output, Result, State, Step, StepConfig, ends_at
from millstream.substreams.event_time import EventTime, latest_times

__all__ = [
    "StepRun",
    "expect_same",
    "find_state_difference",
    "find_table_difference",
    "run_step",
    "sort_by_position",
]

_POSITION = (RANK, OFFSET, PATH)


@dataclass(frozen=True)
class StepRun:
    """The results of a step for its records, and its state at the end."""

    records: pa.Table
    outputs: Mapping[str, pa.Table]
    correct: int
    labelled: int
    baselines: Baselines
    state: State

    @property
    def counts(self) -> str:
        return f"{self.correct} correct of {self.labelled} labelled, {self.baselines}"

    def digest(self) -> str:
        whole = hashlib.sha256(row_hashes(self.records).tobytes())
        for name in sorted(self.outputs):
            whole.update(name.encode() + b"\0")
            whole.update(row_hashes(self.outputs[name]).tobytes())
        whole.update(f"{self.counts} {state_digest(self.state)}".encode())
        return whole.hexdigest()[:32]


def _one_batch(epoch: pa.Table) -> Iterable[pa.Table]:
    """Leave an epoch in one batch."""
    return [epoch]


def run_step(
    config: StepConfig,
    epochs: Sequence[pa.Table],
    cut: Callable[[pa.Table], Iterable[pa.Table]] = _one_batch,
    after_epoch: Callable[[Step], Step] = lambda step: step,
    after_batch: Callable[[Step], Step] = lambda step: step,
    order: Callable[[pa.Table], pa.Table] = in_step_order,
) -> StepRun:
    """Run a step of this config over the epochs, each put in `order` and `cut` into batches.

    After each epoch, the run continues with the step that `after_epoch` returns, and after each batch with the one that
    `after_batch` returns. Event time moves at the epoch boundaries, and ends with the last epoch.
    """
    clock = EventTime()

    def resumed(following: Step) -> Step:
        if following is not step and clock.watermark is not None and isinstance(following, FindsLateRecords):
            following.resume(clock.watermark)
        return following

    step = config.build(epochs[0].schema)
    joined: set[int] = set()
    results: list[Result] = []
    for number, epoch in enumerate(epochs, start=1):
        ranks = np.unique(epoch[RANK].to_numpy()).tolist()
        for rank in ranks:
            clock.join(rank)
        clock.observe(latest_times(epoch))
        for batch in cut(order(epoch)):
            results.append(step.process(batch))
            step = resumed(after_batch(step))
        joined.update(ranks)
        ended = clock.boundary(joined if number == len(epochs) else ())
        if ended is not None and ends_at(step.traits, ended):
            results.append(in_order_at_end(step, step.ended(ended)))
        step = resumed(after_epoch(step))
    made = [result.records for result in results]
    outputs = {}
    for output in step.outputs:
        rows = [result.outputs[output.name] for result in results if output.name in result.outputs]
        outputs[output.name] = pa.concat_tables(
            [output.schema.empty_table(), *(row.cast(output.schema) for row in rows)]
        )
    correct, labelled = sum(result.correct for result in results), sum(result.labelled for result in results)
    baselines = sum((result.baselines for result in results), Baselines())
    return StepRun(pa.concat_tables(made), outputs, correct, labelled, baselines, step.save())


def expect_same(config: StepConfig, expected: StepRun, found: StepRun, what: str, remedy: str) -> None:
    """Raise AssertionError with the first difference between two runs and the remedy, if they differ."""
    difference = _find_difference(expected, found)
    if difference is not None:
        raise AssertionError(f"{config!r} {what}; {difference}; {remedy}")


def _find_difference(one: StepRun, other: StepRun) -> str | None:
    """Describe the first difference between two runs; None if they are equal."""
    tables = {"the records": (one.records, other.records)}
    tables |= {f"the output {name!r}": (one.outputs[name], other.outputs[name]) for name in one.outputs}
    for name, (left, right) in tables.items():
        found = find_table_difference(left, right)
        if found is not None:
            return f"{name}: {found}"
    if one.counts != other.counts:
        return f"the counts: {one.counts}, then {other.counts}"
    return find_state_difference(one.state, other.state)


def find_state_difference(one: State, other: State) -> str | None:
    """Describe the first difference between two states; None if they are equal."""
    if sorted(one) != sorted(other):
        return f"the names in the state: {sorted(one)}, then {sorted(other)}"
    for name in sorted(one):
        if state_digest({name: one[name]}) != state_digest({name: other[name]}):
            return f"{name!r} in the state: {_describe(one[name])}, then {_describe(other[name])}"
    return None


def find_table_difference(one: pa.Table, other: pa.Table) -> str | None:
    """Describe the first difference between two tables; None if they are equal."""
    if one.column_names != other.column_names:
        return f"columns {one.column_names}, then {other.column_names}"
    if one.num_rows != other.num_rows:
        return f"{one.num_rows} rows, then {other.num_rows}"
    if one.schema.types != other.schema.types:
        return f"types {one.schema.types}, then {other.schema.types}"
    for row in np.flatnonzero(row_hashes(one) != row_hashes(other)).tolist()[:1]:
        left, right = one.slice(row, 1), other.slice(row, 1)
        for name in one.column_names:
            if row_hashes(left, [name]) != row_hashes(right, [name]):
                values = (_describe(each[name][0].as_py()) for each in (left, right))
                return f"row {row} of {name!r}: {', then '.join(values)}"
    return None


def _describe(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


def sort_by_position(run: StepRun, outputs: Sequence[Output]) -> StepRun:
    """Sort the records and rows of a run by their identities."""
    windows = {output.name: ["_window", *output.key] for output in outputs if output.of == "window"}
    rows = {name: _sort(table, windows.get(name, _POSITION)) for name, table in run.outputs.items()}
    return replace(run, records=_sort(run.records, _POSITION), outputs=rows)


def _sort(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    names = [name for name in by if name in rows.column_names]
    if not names:
        return rows
    return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in names]))

"""The checks of what a step declares about itself, and that its results are repeatable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.records import in_step_order
from millstream.steps.checks.step_run import (
    expect_same,
    find_state_difference,
    find_table_difference,
    run_step,
    sort_by_position,
)
from millstream.steps.contracts import Scope, StepConfig, Traits

__all__ = ["declared_traits", "results_are_repeatable", "traits_are_true"]


def declared_traits(config: StepConfig, records: pa.Schema) -> Traits:
    """Return the traits of a step; AssertionError if it has none."""
    found: object = getattr(config.build(records), "traits", None)
    if not isinstance(found, Traits):
        raise AssertionError(f"{config!r} has {found!r} as its traits; declare `traits = Traits(...)` in its class")
    return found


def results_are_repeatable(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that two new steps make the same results of the same records."""
    what = "gives other results for the same records in a second run"
    remedy = (
        "look for random numbers, a clock, or state that steps share, as in a class or a module; "
        "or declare `deterministic=False`"
    )
    expect_same(config, run_step(config, epochs), run_step(config, epochs), what, remedy)


def traits_are_true(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check the traits: stateless, not ordered, idempotent, keeps all records."""
    step = config.build(epochs[0].schema)
    if step.traits.scope is Scope.STATELESS:
        _remembers_nothing(config, epochs)
    if step.traits.keeps_all:
        _leaves_none_out(config, epochs)
    if step.traits.idempotent:
        _may_process_again(config, epochs)
    if not step.traits.ordered:
        usual = run_step(config, epochs)
        backward = run_step(config, epochs, order=lambda epoch: epoch.take(pa.array(np.arange(epoch.num_rows)[::-1])))
        what = "declares that it is not ordered, but differs when records come in reverse order"
        expected, found = (sort_by_position(run, step.outputs) for run in (usual, backward))
        expect_same(config, expected, found, what, "declare `ordered=True`, or let no record depend on the one before")


def _remembers_nothing(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Compare a stateless step with new steps, one for each epoch."""
    usual = run_step(config, epochs)
    remedy = "declare `Scope.KEYED` or `Scope.GLOBAL`, and let `save` return the state"
    if usual.state:
        found = f"declares itself stateless, but has state under {sorted(usual.state)}"
        raise AssertionError(f"{config!r} {found}; {remedy}")
    schema = epochs[0].schema
    renewed = run_step(config, epochs, after_epoch=lambda step: config.build(schema))
    what = "declares itself stateless, but its results depend on earlier records, as with a counter or a cache"
    expect_same(config, usual, renewed, what, remedy)


def _leaves_none_out(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Count the records of a step that declares that it passes all records on, except rejects and late ones."""
    for epoch in epochs:
        result = config.build(epoch.schema).process(in_step_order(epoch))
        elsewhere = [result.outputs[name].num_rows for name in ("rejects", "late") if name in result.outputs]
        if result.records.num_rows < epoch.num_rows - sum(elsewhere):
            missing = epoch.num_rows - sum(elsewhere) - result.records.num_rows
            found = f"declares `keeps_all`, but leaves {missing} of {epoch.num_rows} records out"
            raise AssertionError(f"{config!r} {found}; declare `keeps_all=False`")


def _may_process_again(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Let an idempotent step process each epoch twice."""
    step = config.build(epochs[0].schema)
    remedy = "declare `idempotent=False`, or let the same records again give the same results and change no state"
    for epoch in epochs:
        records = in_step_order(epoch)
        first, state = step.process(records), step.save()
        second = step.process(records)
        differences = [find_table_difference(first.records, second.records)]
        differences += [
            find_table_difference(rows, second.outputs[name]) if name in second.outputs else f"no rows of {name!r}"
            for name, rows in first.outputs.items()
        ]
        differences.append(find_state_difference(state, step.save()))
        for found in differences:
            if found is not None:
                what = "declares itself idempotent, but differs when it processes an epoch again"
                raise AssertionError(f"{config!r} {what}; {found}; {remedy}")

"""The checks of a step. Each check is a function that raises AssertionError with the difference that it found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.digests import Digest, row_hashes
from millstream.errors import ConfigError
from millstream.log.epochs import Baselines
from millstream.records import OFFSET, TIME, in_step_order
from millstream.state.digests import state_digest
from millstream.state.shards import shard_of
from millstream.steps.checks.failures import named_failures
from millstream.steps.checks.other_process import same_in_another_process
from millstream.steps.checks.step_run import (
    StepRun,
    expect_same,
    find_state_difference,
    run_step,
    sort_by_position,
)
from millstream.steps.checks.traits import declared_traits, results_are_repeatable, traits_are_true
from millstream.steps.contracts import Result, Scope, State, Step, StepConfig
from millstream.steps.keys import check_key, keys_of, shards_of

__all__ = ["STEP_CHECKS", "check_step", "odd_places", "select_checks", "split_into_epochs"]

Check = Callable[[StepConfig, Sequence[pa.Table]], None]

_EPOCHS = 4
_PASSES = 8
_SHARES = 3
_BATCHES = "let the results not depend on where batches begin and end: an epoch may come in one batch or in several"
_STATE = "let `save` return all that `process` uses, and let `restore` continue from it"
_SAME_BYTES = "write names and items in a fixed order, such as sorted, and restore all that `process` uses"
_KEYS = "let each key use only its own state, or declare `Scope.GLOBAL`"


def check_step(config: StepConfig, records: pa.Table, skip: Collection[str] = ()) -> None:
    """Run all checks on a step, with these records cut into a few epochs.

    A step that declares itself non-deterministic skips the checks that compare two runs.

    >>> from millstream_models.hashed_text import HashedText
    >>> records = pa.table({"_rank": [0] * 8, "_offset": range(8), "_time": range(8), "text": ["high tide"] * 8})
    >>> check_step(HashedText(dimensions=64), records, skip=["another_process_changes_nothing"])
    """
    epochs = split_into_epochs(records)
    with named_failures(traits_are_true.__name__, repr(config)):
        deterministic = declared_traits(config, records.schema).deterministic
    for name in select_checks(STEP_CHECKS, skip):
        if deterministic or name not in _COMPARING:
            with named_failures(name, repr(config)):
                STEP_CHECKS[name](config, epochs)


def split_into_epochs(records: pa.Table) -> list[pa.Table]:
    """Cut these records into a few epochs; the last one has the remaining records."""
    size = max(1, -(-records.num_rows // _EPOCHS))
    return [records.slice(start, size) for start in range(0, max(1, records.num_rows), size)]


def select_checks(checks: Collection[str], skip: Collection[str]) -> list[str]:
    """Return the names of the checks without those to skip."""
    unknown = set(skip) - set(checks)
    if unknown:
        message = f"there is no check named {', '.join(sorted(unknown))}; there are {', '.join(checks)}"
        raise ValueError(message)
    return [name for name in checks if name not in skip]


def batching_changes_nothing(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that batches of one record, and of any size including empty ones, give the same results."""
    dice = np.random.default_rng(0)
    expected = run_step(config, epochs)
    for what, cut in (
        ("in batches of one record", lambda epoch: _cut(epoch, range(1, epoch.num_rows))),
        ("in batches of random size", lambda epoch: _cut(epoch, np.sort(dice.integers(0, epoch.num_rows + 1, 5)))),
    ):
        expect_same(
            config, expected, run_step(config, epochs, cut=cut), f"differs when its records come {what}", _BATCHES
        )


def saving_and_restoring_changes_nothing(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that a step gives the same results after `save`, and after its state is restored into a new step.

    The state is saved and restored at every epoch boundary, and at odd places within the epochs: a buffer that is empty
    at the boundaries may hold records there.
    """
    states: list[tuple[State, Digest]] = []

    def save_state(step: Step) -> Step:
        state = step.save()
        states.append((state, state_digest(state)))
        return step

    def restore_state(step: Step) -> Step:
        save_state(step)
        state = states[-1][0]
        other = config.build(epochs[0].schema)
        other.restore(state)
        found = find_state_difference(state, other.save())
        if found is not None:
            raise AssertionError(f"{config!r} does not restore its whole state; {found}; {_STATE}")
        return other

    expected = run_step(config, epochs)
    expect_same(
        config, expected, run_step(config, epochs, after_epoch=save_state), "gives other results after `save`", _STATE
    )
    expect_same(
        config,
        expected,
        run_step(config, epochs, after_epoch=restore_state),
        "gives other results after `restore`",
        _STATE,
    )
    odd = run_step(config, epochs, cut=_cut_at_odd_places, after_batch=restore_state)
    expect_same(config, expected, odd, "gives other results after `restore` within an epoch", _STATE)
    if any(state_digest(state) != digest for state, digest in states):
        message = f"{config!r} changes a state after it was saved or restored"
        raise AssertionError(f"{message}; let `save` and `restore` copy")


def restored_steps_save_the_same_bytes(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that the state has the same bytes at every boundary of many small epochs, with restores and without.

    A dict that was restored may have its names in another order than one that has grown. Then the JSON of the same
    state differs, and so does its digest, once a record has changed the state.
    """
    small = [part for epoch in epochs for part in _cut_at_odd_places(in_step_order(epoch)) if part.num_rows]

    def states(restores: bool) -> list[State]:
        found: list[State] = []

        def save_state(step: Step) -> Step:
            found.append(step.save())
            if not restores:
                return step
            other = config.build(epochs[0].schema)
            other.restore(found[-1])
            return other

        run_step(config, small, after_epoch=save_state)
        return found

    for number, (one, other) in enumerate(zip(states(restores=False), states(restores=True), strict=True), start=1):
        difference = find_state_difference(one, other)
        if difference is not None:
            message = f"{config!r} saves another state after epoch {number} if it was restored before; {difference}"
            raise AssertionError(f"{message}; {_SAME_BYTES}")


def an_empty_state_is_a_new_step(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that restoring an empty state makes a step new, also one that had state."""
    schema = epochs[0].schema
    fresh = config.build(schema).save()
    used = config.build(schema)
    for when in ("new", "used"):
        used.restore({})
        found = find_state_difference(fresh, used.save())
        if found is not None:
            message = f"{config!r}, {when} and restored from an empty state, is not new; {found}"
            raise AssertionError(f"{message}; let `restore({{}})` forget everything")
        for epoch in epochs:
            used.process(in_step_order(epoch))


def input_is_not_modified(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that a step does not change the records that it gets."""
    given = [in_step_order(epoch) for epoch in epochs]
    before = [row_hashes(epoch) for epoch in given]
    run_step(config, given, order=lambda epoch: epoch)
    for number, (epoch, hashes) in enumerate(zip(given, before, strict=True)):
        if not np.array_equal(row_hashes(epoch), hashes):
            raise AssertionError(f"{config!r} changed the records that it got, in batch {number}; copy, then change")


def another_process_changes_nothing(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that another process makes the same results of the same records."""
    same_in_another_process((config, epochs))


def an_empty_batch_is_fine(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that an empty batch gives an empty batch with the usual columns, and changes no state."""
    step = config.build(epochs[0].schema)
    for epoch in epochs:
        full = step.process(in_step_order(epoch)).records
        before = step.save()
        empty = step.process(epoch.slice(0, 0))
        if not empty.records.schema.equals(full.schema, check_metadata=True):
            message = f"{config!r} returns other columns for an empty batch than for a full one"
            remedy = "give every column the same type in every batch, as with `pa.array(values, type)`"
            raise AssertionError(f"{message}:\n{empty.records.schema}\nthen\n{full.schema}\n; {remedy}")
        rows = empty.records.num_rows + sum(table.num_rows for table in empty.outputs.values())
        if rows:
            raise AssertionError(f"{config!r} makes {rows} rows from an empty batch; make rows only of records")
        found = find_state_difference(before, step.save())
        if found is not None:
            raise AssertionError(
                f"{config!r} changes its state for an empty batch; {found}; count records, not batches"
            )


def outputs_are_as_declared(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that the step makes rows only for outputs that it declares, with the declared columns."""
    step = config.build(epochs[0].schema)
    declared = {output.name: output.schema for output in step.outputs}
    for epoch in epochs:
        result: object = step.process(in_step_order(epoch))
        if not isinstance(result, Result):
            found = f"`process` returns a value of the type {type(result).__name__}"
            raise AssertionError(f"{config!r}: {found}; return a `Result` with the records")
        for name, rows in result.outputs.items():
            if name not in declared:
                found = f"makes an output {name!r} that it does not declare: {list(declared)}"
                raise AssertionError(f"{config!r} {found}; name it in `outputs`")
            if rows.schema != declared[name]:
                found = f"declares for {name!r}\n{declared[name]}\nbut makes\n{rows.schema}"
                raise AssertionError(f"{config!r} {found}\n; make rows with the declared schema")


def state_is_bounded(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that records that repeat, at later offsets and times, do not make the state grow without end."""
    sizes: list[int] = []

    def measure(step: Step) -> Step:
        state = step.save().items()
        sizes.append(sum(len(name) + (len(v) if isinstance(v, bytes) else v.nbytes) for name, v in state))
        return step

    run_step(
        config, [_move_later(epochs, epoch, times) for times in range(_PASSES) for epoch in epochs], after_epoch=measure
    )
    half = len(sizes) // 2
    early, late = max(sizes[:half]), max(sizes[half:])
    if late > early * 1.25 + 256:
        message = f"the state of {config!r} grows although the records repeat"
        found = f"{early:,} bytes after {_PASSES // 2} passes, {late:,} after {_PASSES}"
        raise AssertionError(f"{message}: {found}; keep a summary of the records, and forget old ones")


def state_can_be_split_by_key(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Check that several instances of a keyed step, each with some of the keys, give together the results of one."""
    step = config.build(epochs[0].schema)
    if step.traits.scope is not Scope.KEYED:
        return
    try:
        check_key(step.traits, epochs[0].schema)
    except ConfigError as error:
        raise AssertionError(f"{config!r}: {error}") from error
    key = step.traits.key_fields
    usual = run_step(config, epochs)
    keys = {name for epoch in epochs for name in keys_of(epoch, key).to_pylist()}
    unknown = sorted(usual.state.keys() - keys)
    if unknown:
        message = f"{config!r} is keyed by {step.traits.key!r}, but its state has {unknown[0]!r}, which is not a key"
        raise AssertionError(f"{message}; the names of a keyed step's state are its keys")
    shares = [run_step(config, epochs, cut=_keep_share(key, share)) for share in range(_SHARES)]
    for share, run in enumerate(shares):
        foreign = [name for name in run.state if shard_of(name, _SHARES) != share]
        if foreign:
            raise AssertionError(
                f"{config!r} has state for {foreign[0]!r}, but got no record with this key; keep state only by the key"
            )
    what = f"declares that it is keyed by {step.traits.key!r}, but differs when {_SHARES} instances share the keys"
    expect_same(
        config, sort_by_position(usual, step.outputs), sort_by_position(_combine(shares), step.outputs), what, _KEYS
    )


STEP_CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        outputs_are_as_declared,
        an_empty_batch_is_fine,
        input_is_not_modified,
        results_are_repeatable,
        traits_are_true,
        batching_changes_nothing,
        saving_and_restoring_changes_nothing,
        restored_steps_save_the_same_bytes,
        an_empty_state_is_a_new_step,
        state_can_be_split_by_key,
        state_is_bounded,
        another_process_changes_nothing,
    )
}
"""The checks of steps, by name."""

_COMPARING = {
    "results_are_repeatable",
    "batching_changes_nothing",
    "saving_and_restoring_changes_nothing",
    "restored_steps_save_the_same_bytes",
    "traits_are_true",
    "state_can_be_split_by_key",
    "another_process_changes_nothing",
}


def odd_places(size: int) -> list[int]:
    """Return the places at which a range of this size is cut into pieces of 1, 2, 3, 5, 7, 11, ... items.

    No period divides all of these places.

    >>> odd_places(20)
    [1, 3, 6, 11, 18]
    """
    places: list[int] = []
    place = 0
    for number in itertools.chain((1,), _primes()):
        place += number
        if place >= size:
            return places
        places.append(place)
    return places


def _cut_at_odd_places(epoch: pa.Table) -> list[pa.Table]:
    """Cut an epoch at odd places."""
    return _cut(epoch, odd_places(epoch.num_rows))


def _primes() -> Iterator[int]:
    found: list[int] = []
    for number in itertools.count(2):
        if all(number % prime for prime in found):
            found.append(number)
            yield number


def _cut(epoch: pa.Table, cuts: Iterable[int]) -> list[pa.Table]:
    bounds = [0, *cuts, epoch.num_rows]
    return [epoch.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]


def _move_later(epochs: Sequence[pa.Table], epoch: pa.Table, times: int) -> pa.Table:
    """Move an epoch behind all epochs, this number of times."""
    for name in (OFFSET, TIME):
        least = min((pc.min(each[name]).as_py() for each in epochs if pc.min(each[name]).is_valid), default=0)
        most = max((pc.max(each[name]).as_py() for each in epochs if pc.max(each[name]).is_valid), default=0)
        moved = pc.add(epoch[name].cast(pa.int64()), times * (most - least + 1))
        epoch = epoch.set_column(epoch.column_names.index(name), epoch.schema.field(name).with_type(pa.int64()), moved)
    return epoch


def _keep_share(key: Sequence[str], share: int) -> Callable[[pa.Table], list[pa.Table]]:
    """Return a function that keeps the records of an epoch whose keys have this owner."""
    return lambda epoch: [epoch.filter(pa.array(shards_of(keys_of(epoch, key), _SHARES) == share))]


def _combine(runs: Sequence[StepRun]) -> StepRun:
    """Combine the results and states of several runs into one."""
    outputs = {name: pa.concat_tables([run.outputs[name] for run in runs]) for name in runs[0].outputs}
    state = {name: value for run in runs for name, value in run.state.items()}
    correct, labelled = sum(run.correct for run in runs), sum(run.labelled for run in runs)
    baselines = sum((run.baselines for run in runs), Baselines())
    return StepRun(pa.concat_tables([run.records for run in runs]), outputs, correct, labelled, baselines, state)

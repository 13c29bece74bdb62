"""The checks of a step, each a function that raises AssertionError and says what differed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import ConfigError
from millstream.log.baselines import Baselines
from millstream.records import OFFSET, RANK, TIME, digest_of, in_step_order
from millstream.state.digests import state_digest
from millstream.steps.checks.other_process import same_in_another_process
from millstream.steps.checks.step_run import Life, difference, in_states, live
from millstream.steps.contracts import Output, Scope, State, Step, StepConfig
from millstream.steps.keys import check_key, owner, owners

__all__ = ["STEP_CHECKS", "check_step", "chosen", "epochs_of"]

Check = Callable[[StepConfig, Sequence[pa.Table]], None]

_EPOCHS = 4
_PASSES = 8
_SHARES = 3
_POSITION = (RANK, OFFSET)


def check_step(config: StepConfig, records: pa.Table, skip: Collection[str] = ()) -> None:
    """Run the battery over a step, with these records cut into a few epochs.

    For a step that declares itself non-deterministic, the checks that compare two runs are left out.

    >>> from millstream_models.hashed_text import HashedText
    >>> records = pa.table({"_rank": [0] * 8, "_offset": range(8), "_time": range(8), "text": ["high tide"] * 8})
    >>> check_step(HashedText(dimensions=64), records, skip=["another_process_changes_nothing"])
    """
    epochs = epochs_of(records)
    deterministic = config.build(records.schema).traits.deterministic
    for name in chosen(STEP_CHECKS, skip):
        if deterministic or name not in _COMPARING:
            STEP_CHECKS[name](config, epochs)


def epochs_of(records: pa.Table) -> list[pa.Table]:
    """These records as a few epochs, the last one with what is left."""
    size = max(1, -(-records.num_rows // _EPOCHS))
    return [records.slice(start, size) for start in range(0, max(1, records.num_rows), size)]


def chosen(checks: Collection[str], skip: Collection[str]) -> list[str]:
    """The names of the checks but for those to skip."""
    unknown = set(skip) - set(checks)
    if unknown:
        message = f"there is no check named {', '.join(sorted(unknown))}; there are {', '.join(checks)}"
        raise ValueError(message)
    return [name for name in checks if name not in skip]


def batching_changes_nothing(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Batches of one record, or of any size, with empty ones between them, come to the same."""
    dice = np.random.default_rng(0)
    expected = live(config, epochs)
    for what, cut in (
        ("in batches of one record", lambda epoch: _cut(epoch, range(1, epoch.num_rows))),
        ("in batches of random size", lambda epoch: _cut(epoch, np.sort(dice.integers(0, epoch.num_rows + 1, 5)))),
    ):
        _same(config, expected, live(config, epochs, cut=cut), f"differs when its records come {what}")


def saving_and_restoring_changes_nothing(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """A step that is saved, and restored into a new one, goes on as if nothing had been."""
    saves: list[tuple[State, str]] = []

    def saved(step: Step) -> Step:
        state = step.save()
        saves.append((state, state_digest(state)))
        return step

    def restored(step: Step) -> Step:
        saved(step)
        state = saves[-1][0]
        again = config.build(epochs[0].schema)
        again.restore(state)
        found = in_states(state, again.save())
        if found is not None:
            raise AssertionError(f"{config!r} does not restore all that it saves; {found}")
        return again

    expected = live(config, epochs)
    _same(config, expected, live(config, epochs, edge=saved), "goes on differently once saved")
    _same(config, expected, live(config, epochs, edge=restored), "goes on differently once saved and restored")
    if any(state_digest(state) != digest for state, digest in saves):
        message = f"{config!r} goes on writing to what it saved, or to what it was restored from"
        raise AssertionError(f"{message}; save and restore copies")


def restoring_nothing_makes_it_new(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """An empty state is that of a new step, also for one that has state already."""
    schema = epochs[0].schema
    fresh = config.build(schema).save()
    used = config.build(schema)
    for when in ("new", "used"):
        used.restore({})
        found = in_states(fresh, used.save())
        if found is not None:
            raise AssertionError(f"{config!r}, {when} and restored from an empty state, is not new; {found}")
        for epoch in epochs:
            used.process(in_step_order(epoch))


def input_is_not_modified(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """The records that a step was given are as they were."""
    given = [in_step_order(epoch) for epoch in epochs]
    before = [digest_of([epoch]) for epoch in given]
    live(config, given, order=lambda epoch: epoch)
    for number, (epoch, digest) in enumerate(zip(given, before, strict=True)):
        if digest_of([epoch]) != digest:
            raise AssertionError(f"{config!r} changed the records it was given, in batch {number}; copy, then change")


def another_process_changes_nothing(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Another process makes the same of the same records."""
    same_in_another_process((config, epochs))


def an_empty_batch_is_fine(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """A batch without records makes none, with the columns that every batch has, and changes no state."""
    step = config.build(epochs[0].schema)
    for epoch in epochs:
        full = step.process(in_step_order(epoch)).records
        before = step.save()
        empty = step.process(epoch.slice(0, 0))
        if not empty.records.schema.equals(full.schema, check_metadata=True):
            message = f"{config!r} gives an empty batch other columns than a full one"
            raise AssertionError(f"{message}:\n{empty.records.schema}\nthen\n{full.schema}")
        rows = empty.records.num_rows + sum(table.num_rows for table in empty.outputs.values())
        if rows:
            raise AssertionError(f"{config!r} makes {rows} rows of an empty batch")
        found = in_states(before, step.save())
        if found is not None:
            raise AssertionError(f"{config!r} remembers an empty batch; {found}")


def outputs_are_as_declared(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Rows go to outputs that the step declares, with the columns it declares."""
    step = config.build(epochs[0].schema)
    declared = {output.name: output.schema for output in step.outputs}
    for epoch in epochs:
        for name, rows in step.process(in_step_order(epoch)).outputs.items():
            if name not in declared:
                raise AssertionError(f"{config!r} makes an output {name!r} that it does not declare: {list(declared)}")
            if rows.schema != declared[name]:
                raise AssertionError(f"{config!r} declares for {name!r}\n{declared[name]}\nbut makes\n{rows.schema}")


def state_is_bounded(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """The same records again and again, only later, do not make the state grow for ever."""
    sizes: list[int] = []

    def measured(step: Step) -> Step:
        state = step.save().items()
        sizes.append(sum(len(name) + (len(v) if isinstance(v, bytes) else v.nbytes) for name, v in state))
        return step

    live(config, [_later(epochs, epoch, times) for times in range(_PASSES) for epoch in epochs], edge=measured)
    half = len(sizes) // 2
    early, late = max(sizes[:half]), max(sizes[half:])
    if late > early * 1.25 + 256:
        message = f"{config!r} grows on records that repeat: {early:,} bytes after {_PASSES // 2} times"
        raise AssertionError(f"{message}, {late:,} after {_PASSES}")


def traits_are_true(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """A step that declares itself stateless remembers nothing; one that is not ordered takes records in any order."""
    step = config.build(epochs[0].schema)
    usual = live(config, epochs)
    if step.traits.scope is Scope.STATELESS and usual.state:
        raise AssertionError(f"{config!r} declares itself stateless, and remembers {sorted(usual.state)}")
    if not step.traits.ordered:
        turned = live(config, epochs, order=lambda epoch: epoch.take(pa.array(np.arange(epoch.num_rows)[::-1])))
        what = "declares that it is not ordered, but differs when records come in reverse"
        _same(config, _by_position(usual, step.outputs), _by_position(turned, step.outputs), what)


def keys_can_be_dealt_out(config: StepConfig, epochs: Sequence[pa.Table]) -> None:
    """Several of a keyed step, each with the records and the state of some of the keys, make the same as one."""
    step = config.build(epochs[0].schema)
    if step.traits.scope is not Scope.KEYED:
        return
    try:
        check_key(step.traits, epochs[0].schema)
    except ConfigError as error:
        raise AssertionError(f"{config!r}: {error}") from error
    key = str(step.traits.key)
    usual = live(config, epochs)
    keys = {name for epoch in epochs for name in epoch[key].to_pylist()}
    strange = sorted(usual.state.keys() - keys)
    if strange:
        message = f"{config!r} is keyed by {key!r}, but its state has {strange[0]!r}, which no record has there"
        raise AssertionError(f"{message}; the names of a keyed step's state are its keys")
    lives = [live(config, epochs, cut=_of_share(key, share)) for share in range(_SHARES)]
    for share, life in enumerate(lives):
        foreign = [name for name in life.state if owner(name, _SHARES) != share]
        if foreign:
            raise AssertionError(f"{config!r} remembers {foreign[0]!r}, of which it has not seen a record")
    what = f"declares that it is keyed by {key!r}, but differs when each key's records go to one of {_SHARES}"
    _same(config, _by_position(usual, step.outputs), _by_position(_together(lives), step.outputs), what)


STEP_CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        outputs_are_as_declared,
        an_empty_batch_is_fine,
        input_is_not_modified,
        batching_changes_nothing,
        saving_and_restoring_changes_nothing,
        restoring_nothing_makes_it_new,
        traits_are_true,
        keys_can_be_dealt_out,
        state_is_bounded,
        another_process_changes_nothing,
    )
}
"""The battery, by name."""

_COMPARING = {
    "batching_changes_nothing",
    "saving_and_restoring_changes_nothing",
    "traits_are_true",
    "keys_can_be_dealt_out",
    "another_process_changes_nothing",
}


def _same(config: StepConfig, expected: Life, found: Life, what: str) -> None:
    differs = difference(expected, found)
    if differs is not None:
        raise AssertionError(f"{config!r} {what}; {differs}")


def _cut(epoch: pa.Table, edges: Iterable[int]) -> list[pa.Table]:
    places = [0, *edges, epoch.num_rows]
    return [epoch.slice(start, stop - start) for start, stop in itertools.pairwise(places)]


def _later(epochs: Sequence[pa.Table], epoch: pa.Table, times: int) -> pa.Table:
    """An epoch moved behind all of them, as often."""
    for name in (OFFSET, TIME):
        least = min((pc.min(each[name]).as_py() for each in epochs if pc.min(each[name]).is_valid), default=0)
        most = max((pc.max(each[name]).as_py() for each in epochs if pc.max(each[name]).is_valid), default=0)
        moved = pc.add(epoch[name].cast(pa.int64()), times * (most - least + 1))
        epoch = epoch.set_column(epoch.column_names.index(name), epoch.schema.field(name).with_type(pa.int64()), moved)
    return epoch


def _of_share(key: str, share: int) -> Callable[[pa.Table], list[pa.Table]]:
    """Leaves of an epoch the records whose keys have this owner."""
    return lambda epoch: [epoch.filter(pa.array(owners(epoch[key], _SHARES) == share))]


def _together(lives: Sequence[Life]) -> Life:
    """What several lives made, as one."""
    outputs = {name: pa.concat_tables([life.outputs[name] for life in lives]) for name in lives[0].outputs}
    state = {name: value for life in lives for name, value in life.state.items()}
    correct, labelled = sum(life.correct for life in lives), sum(life.labelled for life in lives)
    baselines = sum((life.baselines for life in lives), Baselines())
    return Life(pa.concat_tables([life.records for life in lives]), outputs, correct, labelled, baselines, state)


def _by_position(life: Life, outputs: Sequence[Output]) -> Life:
    """The same with its rows in the order of their identities."""
    windows = {output.name: ["_window", *output.key] for output in outputs if output.of == "window"}
    rows = {name: _sorted(table, windows.get(name, _POSITION)) for name, table in life.outputs.items()}
    return replace(life, records=_sorted(life.records, _POSITION), outputs=rows)


def _sorted(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    names = [name for name in by if name in rows.column_names]
    if not names:
        return rows
    return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in names]))

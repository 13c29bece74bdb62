"""Full and incremental checkpoints: the state of all steps after one epoch, written atomically.

A checkpoint is one file. A full checkpoint has all state; a delta has the changes since an earlier checkpoint, its
base. The n-th checkpoint after a full one has number n - 1 as its base or, if n is a multiple of 16, number n - 16; of
256, number n - 256; and so on (numbers counted from the full one). So loading the newest checkpoint reads a few files,
however many were written. When the deltas since the full checkpoint have more bytes than the full one, the next
checkpoint is full.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from millstream.arrays import Array
from millstream.errors import AlteredLog
from millstream.log.journal.durability import make_folder
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.changes import array_entry
from millstream.state.checkpoint_file import ArrayEntry, CheckpointFile, KeyedEntry, read_header, write_checkpoint
from millstream.state.dirty_rows import ArraySnapshot, Value
from millstream.state.keyed_state import KeyedSnapshot
from millstream.state.thinning import DAY, kept

__all__ = ["Checkpoint", "CheckpointReader", "CheckpointStore", "States", "read_newest"]

States = Mapping[str, Mapping[str, Value]]
"""The state of every step: by step name, then by the step's own names."""

_Read = TypeVar("_Read")
_SPAN = 16


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint on disk. `base` is the number of the checkpoint that a delta is based on; None if it is full.

    `at` is the time of writing in microseconds UTC.
    """

    number: int
    epoch: int
    applied: AppliedEpochs
    versions: Mapping[str, str]
    base: int | None
    at: int = 0


class CheckpointReader:
    """Reads the checkpoints of a run directory, also while the run writes more; changes nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checkpoints: dict[int, Checkpoint] = {}
        while not self._checkpoints and (paths := sorted(folder.glob("*.checkpoint"))):
            for path in paths:
                with suppress(FileNotFoundError):  # the run has dropped it meanwhile, for a newer one
                    checkpoint = _parse_manifest(read_header(path))
                    self._checkpoints[checkpoint.number] = checkpoint

    def newest(self, upto: int | None = None) -> Checkpoint | None:
        """The newest checkpoint; with `upto`, the newest one whose epoch is not after `upto`."""
        usable = [checkpoint for checkpoint in self._checkpoints.values() if upto is None or checkpoint.epoch <= upto]
        return max(usable, key=lambda checkpoint: checkpoint.number) if usable else None

    def epochs(self) -> set[int]:
        """The epochs of the checkpoints."""
        return {checkpoint.epoch for checkpoint in self._checkpoints.values()}

    def before(self, time: int, upto: int) -> Checkpoint | None:
        """The newest checkpoint that was written at `time` or earlier and whose epoch is not after `upto`."""
        old = [each for each in self._checkpoints.values() if each.at <= time and each.epoch <= upto]
        return max(old, key=lambda checkpoint: checkpoint.number, default=None)

    def copy(self, number: int, folder: Path) -> None:
        """Copy a checkpoint, with all that it is based on, to the checkpoints of another run directory."""
        make_folder(folder)
        for link in self._chain(number):
            path = self._path(link.number)
            shutil.copyfile(path, folder / f"{path.name}.tmp")
            (folder / f"{path.name}.tmp").rename(folder / path.name)

    def load(self, checkpoint: Checkpoint) -> dict[str, Mapping[str, Array | bytes]]:
        """The states in a checkpoint. All digests are checked; state by key is read from the files on demand."""
        states: dict[str, Mapping[str, Array | bytes]] = {}
        for link in reversed(list(self._chain(checkpoint.number))):
            states = CheckpointFile(self._path(link.number)).apply_to(states)
        return states

    def written_at(self, checkpoint: Checkpoint) -> int | None:
        """The time of writing in microseconds UTC; None if the checkpoint was dropped meanwhile."""
        with suppress(FileNotFoundError):
            return self._path(checkpoint.number).stat().st_mtime_ns // 1000
        return None

    def size(self, checkpoint: Checkpoint) -> int | None:
        """The size of the file in bytes; None if the checkpoint was dropped meanwhile."""
        with suppress(FileNotFoundError):
            return self._path(checkpoint.number).stat().st_size
        return None

    def numbers(self) -> list[int]:
        return sorted(self._checkpoints)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.checkpoint"

    def _chain(self, number: int | None) -> Iterator[Checkpoint]:
        """A checkpoint, its base, the base of that, and so on to a full one."""
        while number is not None:
            if number not in self._checkpoints:
                raise FileNotFoundError(self._path(number))
            yield self._checkpoints[number]
            number = self._checkpoints[number].base


def _parse_manifest(header: Mapping[str, Any]) -> Checkpoint:
    applied = AppliedEpochs.from_line(header["applied"])
    return Checkpoint(header["number"], header["epoch"], applied, header["versions"], header["base"], header["at"])


@dataclass(frozen=True)
class _LastCheckpoint:
    """The last checkpoint with its states; the last full checkpoint; the bytes of that one and of the deltas since."""

    number: int
    states: States
    full: int
    full_bytes: int
    delta_bytes: int


class CheckpointStore(CheckpointReader):
    """The checkpoints of one run directory, numbered in the order they were written.

    `keep` is the period, in microseconds, of which one checkpoint a day is kept; None: without end.
    """

    def __init__(
        self,
        folder: Path,
        versions: Mapping[str, str],
        keep: int | None = 7 * DAY,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        make_folder(folder)
        for torn in folder.glob("*.tmp"):
            torn.unlink()
        super().__init__(folder)
        self._versions, self._keep, self._clock = dict(versions), keep, clock
        self._last: _LastCheckpoint | None = None

    def write(self, epoch: int, applied: AppliedEpochs, states: States) -> Checkpoint:
        """Write a checkpoint durably. The caller must not change the arrays in `states` afterwards."""
        assert epoch <= applied.last, (
            f"a checkpoint after epoch {epoch} needs a state with that epoch; this one has none after {applied.last}"
        )
        number = max(self._checkpoints, default=-1) + 1
        base, arrays, keyed = self._entries(number, states)
        checkpoint = Checkpoint(number, epoch, applied, self._versions, base, self._clock())
        size = write_checkpoint(self._path(number), _manifest(checkpoint, arrays, keyed), _chunks(arrays, keyed))
        self._checkpoints[number] = checkpoint
        self._last = self._remember(checkpoint, states, size)
        for state in states.values():
            for value in () if isinstance(state, KeyedSnapshot) else state.values():
                if isinstance(value, ArraySnapshot):
                    value.compact()  # the previous snapshot is no longer needed
        return checkpoint

    def _entries(self, number: int, states: States) -> tuple[int | None, list[ArrayEntry], list[KeyedEntry]]:
        """The base of checkpoint `number`, and the entries that it stores of these states."""
        changes = self._changes_by_key(states)
        base, between, known = (None, [], {}) if changes is None else self._choose_base(number)
        arrays: list[ArrayEntry] = []
        keyed: list[KeyedEntry] = []
        for step, state in states.items():
            if isinstance(state, KeyedSnapshot):
                changed = None if changes is None else _merge_changes(step, between, changes[step])
                keyed.append(KeyedEntry(step, state, changed))
            else:
                old = known.get(step, {})
                arrays += [array_entry(step, name, old.get(name), state[name], between) for name in state]
        if not keyed and all(entry.indices is None for entry in arrays):
            base = None
        return base, arrays, keyed

    def drop_before(self, number: int) -> None:
        """Delete the checkpoints before `number` that are no base, direct or indirect, of `number` or a later one."""
        self._keep_only(n for n in self._checkpoints if n >= number)

    def thin(self, needed: Collection[int] = ()) -> None:
        """Remove the checkpoints that need not be kept; `needed` are numbers of checkpoints to keep."""
        times = {number: checkpoint.at for number, checkpoint in self._checkpoints.items()}
        self._keep_only(kept(times, self._clock(), self._keep) | (set(needed) & times.keys()))

    def _keep_only(self, keeping: Iterable[int]) -> None:
        needed: set[int] = set()
        for number in keeping:
            for checkpoint in self._chain(number):
                if checkpoint.number in needed:
                    break
                needed.add(checkpoint.number)
        for gone in sorted(self._checkpoints.keys() - needed, reverse=True):  # a delta before its base
            self._path(gone).unlink(missing_ok=True)
        self._checkpoints = {n: checkpoint for n, checkpoint in self._checkpoints.items() if n in needed}

    def _changes_by_key(self, states: States) -> Mapping[str, Mapping[str, bytes | None]] | None:
        """The changes of state by key since the last checkpoint; None if the next checkpoint must be full."""
        last = self._last
        if last is None or last.delta_bytes > last.full_bytes:
            return None
        changes: dict[str, Mapping[str, bytes | None]] = {}
        for step, state in states.items():
            if isinstance(state, KeyedSnapshot):
                changed = state.since(last.states.get(step))
                if changed is None:
                    return None
                changes[step] = changed
        return changes

    def _choose_base(self, number: int) -> tuple[int | None, list[CheckpointFile], States]:
        """The base of checkpoint `number`; the checkpoints after the base, oldest first; the states in the last one.

        The new checkpoint also stores the changes of the checkpoints in between.
        """
        last = self._last
        if last is None:
            return None, [], {}
        index, span = number - last.full, 1
        while index % (span * _SPAN) == 0:
            span *= _SPAN
        between = [checkpoint.number for checkpoint in self._chain(last.number) if checkpoint.number > number - span]
        return number - span, [CheckpointFile(self._path(each)) for each in reversed(between)], last.states

    def _remember(self, checkpoint: Checkpoint, states: States, size: int) -> _LastCheckpoint:
        if checkpoint.base is None or self._last is None:
            return _LastCheckpoint(checkpoint.number, states, checkpoint.number, size, 0)
        last = self._last
        return _LastCheckpoint(checkpoint.number, states, last.full, last.full_bytes, last.delta_bytes + size)


def _merge_changes(
    step: str, between: list[CheckpointFile], changed: Mapping[str, bytes | None]
) -> Mapping[str, bytes | None]:
    merged: dict[str, bytes | None] = {}
    for file in between:
        for part in file.keyed(step):
            merged.update(part)
    merged.update(changed)
    return merged


def _manifest(checkpoint: Checkpoint, arrays: list[ArrayEntry], keyed: list[KeyedEntry]) -> dict[str, Any]:
    return {
        "number": checkpoint.number,
        "epoch": checkpoint.epoch,
        "applied": checkpoint.applied.line(),
        "versions": dict(checkpoint.versions),
        "base": checkpoint.base,
        "at": checkpoint.at,
        "arrays": [entry.line() for entry in arrays],
        "keyed": [entry.line() for entry in keyed],
    }


def _chunks(arrays: list[ArrayEntry], keyed: list[KeyedEntry]) -> Iterator[bytes | memoryview]:
    for array in arrays:
        yield from array.chunks()
    for entry in keyed:
        yield from entry.chunks()


def read_newest(folder: Path, read: Callable[[Checkpoint, States], _Read]) -> _Read | None:
    """Call `read` with the newest checkpoint and return its result; None if there is no checkpoint.

    A run may write and drop checkpoints meanwhile. If it drops a file that `read` needs, `read` is called again with
    the newer checkpoint.
    """
    vanished = None
    while (checkpoint := (reader := CheckpointReader(folder)).newest()) is not None:
        try:
            return read(checkpoint, reader.load(checkpoint))
        except FileNotFoundError:  # dropped meanwhile: there is a newer one
            if vanished == checkpoint.number:
                message = f"{folder}: a file that checkpoint {checkpoint.number} needs is gone; start over with --fresh"
                raise AlteredLog(message) from None
            vanished = checkpoint.number
    return None

"""Checkpoints: the state of all steps after one epoch, whole or not at all.

A checkpoint is one file. Where little changed since an earlier save it has only that and leans on the earlier one,
which may lean on another: the n-th after one that is whole leans on number n - 1 or, if n is divisible by a power of
16, on n less that power, and has all that changed since. So a few checkpoints are enough to load the newest, however
many were written since the whole one. Another whole one is written once those since have come to as many bytes as that
one has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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

__all__ = ["Checkpoint", "CheckpointReader", "CheckpointStore", "States", "read_newest"]

States = Mapping[str, Mapping[str, Value]]
"""The state of every step: by step name, then by the step's own names."""

_Read = TypeVar("_Read")
_SPAN = 16


@dataclass(frozen=True)
class Checkpoint:
    """One save on disk. `leans_on` is the number of the checkpoint that it needs, if any."""

    number: int
    epoch: int
    applied: AppliedEpochs
    versions: Mapping[str, str]
    leans_on: int | None


class CheckpointReader:
    """Looks at the checkpoints of a run directory, also beside the run that writes them; changes nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checkpoints: dict[int, Checkpoint] = {}
        while not self._checkpoints and (paths := sorted(folder.glob("*.checkpoint"))):
            for path in paths:
                with suppress(FileNotFoundError):  # the run has dropped it since, for a newer one
                    checkpoint = _described(read_header(path))
                    self._checkpoints[checkpoint.number] = checkpoint

    def newest(self, upto: int | None = None) -> Checkpoint | None:
        """The checkpoint written last; or the newest of an epoch not beyond `upto`."""
        usable = [checkpoint for checkpoint in self._checkpoints.values() if upto is None or checkpoint.epoch <= upto]
        return max(usable, key=lambda checkpoint: checkpoint.number) if usable else None

    def load(self, checkpoint: Checkpoint) -> dict[str, Mapping[str, Array | bytes]]:
        """The states in a checkpoint, every digest checked. State by key is read from the files on demand."""
        states: dict[str, Mapping[str, Array | bytes]] = {}
        for link in reversed(list(self._chain(checkpoint.number))):
            states = CheckpointFile(self._path(link.number)).over(states)
        return states

    def written_at(self, checkpoint: Checkpoint) -> int | None:
        """When it was written, in microseconds UTC; None if it has been dropped since."""
        with suppress(FileNotFoundError):
            return self._path(checkpoint.number).stat().st_mtime_ns // 1000
        return None

    def size(self, checkpoint: Checkpoint) -> int | None:
        """Its bytes on disk; None if it has been dropped since."""
        with suppress(FileNotFoundError):
            return self._path(checkpoint.number).stat().st_size
        return None

    def numbers(self) -> list[int]:
        return sorted(self._checkpoints)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.checkpoint"

    def _chain(self, number: int | None) -> Iterator[Checkpoint]:
        """A checkpoint and those that it needs, the newest first."""
        while number is not None:
            if number not in self._checkpoints:
                raise FileNotFoundError(self._path(number))
            yield self._checkpoints[number]
            number = self._checkpoints[number].leans_on


def _described(header: Mapping[str, Any]) -> Checkpoint:
    applied = AppliedEpochs.from_line(header["applied"])
    return Checkpoint(header["number"], header["epoch"], applied, header["versions"], header["leans_on"])


@dataclass(frozen=True)
class _Written:
    """The checkpoint written last: what was in it, the whole one under it, and the bytes of that and of those since."""

    number: int
    states: States
    whole: int
    whole_bytes: int
    bytes_since: int


class CheckpointStore(CheckpointReader):
    """The checkpoints of one run directory, numbered in the order they were written."""

    def __init__(self, folder: Path, versions: Mapping[str, str]) -> None:
        make_folder(folder)
        for torn in folder.glob("*.tmp"):
            torn.unlink()
        super().__init__(folder)
        self._versions = dict(versions)
        self._last: _Written | None = None

    def write(self, epoch: int, applied: AppliedEpochs, states: States) -> Checkpoint:
        """Write a checkpoint; durable on return. The arrays must stay as they are from now on."""
        assert epoch <= applied.last, (
            f"a checkpoint after epoch {epoch} of a state that has seen none after {applied.last}"
        )
        number = max(self._checkpoints, default=-1) + 1
        leans_on, arrays, keyed = self._entries(number, states)
        checkpoint = Checkpoint(number, epoch, applied, self._versions, leans_on)
        size = write_checkpoint(self._path(number), _header(checkpoint, arrays, keyed), _chunks(arrays, keyed))
        self._checkpoints[number] = checkpoint
        self._last = self._written(checkpoint, states, size)
        for state in states.values():
            for value in () if isinstance(state, KeyedSnapshot) else state.values():
                if isinstance(value, ArraySnapshot):
                    value.compact()  # the snapshot before is kept no more
        return checkpoint

    def _entries(self, number: int, states: States) -> tuple[int | None, list[ArrayEntry], list[KeyedEntry]]:
        """What a checkpoint holds of these states, and the one that it leans on."""
        changes = self._changes_by_key(states)
        leans_on, between, known = (None, [], {}) if changes is None else self._leaning(number)
        arrays: list[ArrayEntry] = []
        keyed: list[KeyedEntry] = []
        for step, state in states.items():
            if isinstance(state, KeyedSnapshot):
                changed = None if changes is None else _merged(step, between, changes[step])
                keyed.append(KeyedEntry(step, state, changed))
            else:
                old = known.get(step, {})
                arrays += [array_entry(step, name, old.get(name), state[name], between) for name in state]
        if not keyed and all(entry.indices is None for entry in arrays):
            leans_on = None
        return leans_on, arrays, keyed

    def drop_before(self, number: int) -> None:
        """Delete the checkpoints that neither `number` nor a later one needs."""
        needed: set[int] = set()
        for late in [n for n in self._checkpoints if n >= number]:
            for checkpoint in self._chain(late):
                if checkpoint.number in needed:
                    break
                needed.add(checkpoint.number)
        for gone in sorted(self._checkpoints.keys() - needed, reverse=True):  # leaners first
            self._path(gone).unlink(missing_ok=True)
        self._checkpoints = {n: checkpoint for n, checkpoint in self._checkpoints.items() if n in needed}

    def _changes_by_key(self, states: States) -> Mapping[str, Mapping[str, bytes | None]] | None:
        """What has changed of state by key since the checkpoint before; None if this one is to be whole."""
        last = self._last
        if last is None or last.bytes_since > last.whole_bytes:
            return None
        changes: dict[str, Mapping[str, bytes | None]] = {}
        for step, state in states.items():
            if isinstance(state, KeyedSnapshot):
                changed = state.since(last.states.get(step))
                if changed is None:
                    return None
                changes[step] = changed
        return changes

    def _leaning(self, number: int) -> tuple[int | None, list[CheckpointFile], States]:
        """The base; the checkpoints after it, oldest first, whose changes this one repeats; the states before."""
        last = self._last
        if last is None:
            return None, [], {}
        index, span = number - last.whole, 1
        while index % (span * _SPAN) == 0:
            span *= _SPAN
        between = [checkpoint.number for checkpoint in self._chain(last.number) if checkpoint.number > number - span]
        return number - span, [CheckpointFile(self._path(each)) for each in reversed(between)], last.states

    def _written(self, checkpoint: Checkpoint, states: States, size: int) -> _Written:
        if checkpoint.leans_on is None or self._last is None:
            return _Written(checkpoint.number, states, checkpoint.number, size, 0)
        last = self._last
        return _Written(checkpoint.number, states, last.whole, last.whole_bytes, last.bytes_since + size)


def _merged(
    step: str, between: list[CheckpointFile], changed: Mapping[str, bytes | None]
) -> Mapping[str, bytes | None]:
    merged: dict[str, bytes | None] = {}
    for file in between:
        for part in file.keyed(step):
            merged.update(part)
    merged.update(changed)
    return merged


def _header(checkpoint: Checkpoint, arrays: list[ArrayEntry], keyed: list[KeyedEntry]) -> dict[str, Any]:
    return {
        "number": checkpoint.number,
        "epoch": checkpoint.epoch,
        "applied": checkpoint.applied.line(),
        "versions": dict(checkpoint.versions),
        "leans_on": checkpoint.leans_on,
        "arrays": [entry.line() for entry in arrays],
        "keyed": [entry.line() for entry in keyed],
    }


def _chunks(arrays: list[ArrayEntry], keyed: list[KeyedEntry]) -> Iterator[bytes | memoryview]:
    for array in arrays:
        yield from array.chunks()
    for entry in keyed:
        yield from entry.chunks()


def read_newest(folder: Path, read: Callable[[Checkpoint, States], _Read]) -> _Read | None:
    """What `read` makes of the newest checkpoint, beside a run that may be writing and dropping checkpoints; None
    without any.

    It may be called again, when what it was reading has been dropped for a newer save.
    """
    vanished = None
    while (checkpoint := (reader := CheckpointReader(folder)).newest()) is not None:
        try:
            return read(checkpoint, reader.load(checkpoint))
        except FileNotFoundError:  # dropped since: there is a newer one
            if vanished == checkpoint.number:
                message = f"{folder}: a file that checkpoint {checkpoint.number} needs is gone; start over with --fresh"
                raise AlteredLog(message) from None
            vanished = checkpoint.number
    return None

"""Checkpoints: the state of all steps after one epoch, as a manifest that names sections in layers.

A checkpoint counts only once its line in the epoch log is durable. So a manifest with a higher number than the last
line is left from a crash; the next checkpoint replaces it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from millstream.errors import AlteredCheckpoint
from millstream.log.epochs import EpochReader
from millstream.log.journal.durability import make_folder
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import Work, finish
from millstream.state.files import DiskFiles, link_durably, write_durably
from millstream.state.layers import Layers, OpenLayers, Section, Sections
from millstream.state.savepoints import savepoints
from millstream.state.shards import SHARDS
from millstream.state.stored_states import States, StoredStates
from millstream.state.thinning import DAY, kept
from millstream.timestamps import wall_clock

__all__ = ["Checkpoint", "CheckpointReader", "CheckpointStore", "read_newest"]

_Read = TypeVar("_Read")
_PREFIX = b'{"digest": "'
_BODY = len(_PREFIX) + 64


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint. `at` is the time of writing in microseconds UTC, `watermarks` those of the steps."""

    number: int
    epoch: int
    applied: AppliedEpochs
    versions: Mapping[str, str]
    at: int = 0
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    sections: Sections = field(default_factory=dict)
    shards: int = SHARDS

    @property
    def name(self) -> str:
        """The name of the manifest."""
        return f"{self.number:010d}.json"

    @cached_property
    def size(self) -> int:
        """The bytes of all sections."""
        return sum(section.length for section in self._all_sections())

    @cached_property
    def files(self) -> frozenset[str]:
        """The layers with the sections."""
        return frozenset(section.file for section in self._all_sections())

    def _all_sections(self) -> Iterator[Section]:
        return (section for shards in self.sections.values() for chain in shards.values() for section in chain)

    @cached_property
    def content(self) -> bytes:
        """The manifest: a JSON object whose first value is the digest of all bytes after it."""
        fields = {
            "epoch": self.epoch,
            "at": self.at,
            "applied": self.applied.line(),
            "versions": dict(self.versions),
            "watermarks": dict(self.watermarks),
            "shards": self.shards,
            "sections": self.sections,
        }
        body = b'", ' + json.dumps(fields).encode()[1:] + b"\n"
        return _PREFIX + hashlib.sha256(body).hexdigest().encode() + body

    @property
    def digest(self) -> str:
        """The digest of the manifest."""
        return self.content[len(_PREFIX) : _BODY].decode()


class CheckpointReader:
    """Reads the checkpoints of a run, also while the run writes more; changes nothing.

    `last` is the number of the last checkpoint in the epoch log: only this one and earlier ones count.
    """

    def __init__(self, run: Path, last: int) -> None:
        self._manifests, self._folder = run / "checkpoints", run / "layers"
        self._last = last

    def newest(self, upto: int | None = None) -> Checkpoint | None:
        """The newest checkpoint; with `upto`, the newest one whose epoch is not after `upto`.

        If the run has dropped the last one since the epoch log was read, it has newer ones: the oldest of these counts.
        """
        counted = self.numbers()
        if self._last >= 0 and self._last not in counted:
            counted = [*counted, *[number for number in self._on_disk() if number > self._last][:1]]
        for number in reversed(counted):
            with suppress(FileNotFoundError):  # the run has dropped it meanwhile, for a newer one
                checkpoint = self._read(number)
                if upto is None or checkpoint.epoch <= upto:
                    return checkpoint
        return None

    def epochs(self) -> set[int]:
        """The epochs of the checkpoints."""
        return {self._read(number).epoch for number in self.numbers()}

    def before(self, time: int, upto: int) -> Checkpoint | None:
        """The newest checkpoint that was written at `time` or earlier and whose epoch is not after `upto`."""
        newest_first = (self._read(number) for number in reversed(self.numbers()))
        return next((each for each in newest_first if each.at <= time and each.epoch <= upto), None)

    def copy(self, checkpoint: Checkpoint, run: Path) -> None:
        """Bring a checkpoint with its layers, durably, into another run directory; the epoch log there says it counts.

        The checkpoint may name fewer sections than its manifest here. No layer ever changes, so both runs may share it.
        """
        for folder in ("layers", "checkpoints"):
            make_folder(run / folder)
        for name in sorted(checkpoint.files):
            link_durably(self._folder / name, run / "layers" / name)
        finish(write_durably(DiskFiles(), run / "checkpoints" / checkpoint.name, [checkpoint.content]))

    def numbered(self, number: int) -> Checkpoint:
        """The checkpoint of this number; `FileNotFoundError` if it is gone."""
        return self._read(number)

    def states(self, checkpoint: Checkpoint) -> StoredStates:
        """The states in a checkpoint, read on demand."""
        return StoredStates(self._folder, checkpoint.sections, checkpoint.shards)

    def all(self) -> list[Checkpoint]:
        """The checkpoints at this moment, in ascending order."""
        found = []
        for number in self.numbers():
            with suppress(FileNotFoundError):  # the run has dropped it meanwhile, for a newer one
                found.append(self._read(number))
        return found

    def verify(self, number: int, verified: set[Section]) -> Checkpoint:
        """Read all bytes of a checkpoint, except those of the sections in `verified`, which grows.

        A file that was altered raises `AlteredCheckpoint`, and one that is gone `FileNotFoundError`.
        """
        checkpoint = self._read(number)
        with OpenLayers(self._folder) as layers:
            for step, shards in checkpoint.sections.items():
                for shard, chain in shards.items():
                    for section in set(chain) - verified:
                        layers[section.file].verify(step, shard, section)
                        verified.add(section)
        return checkpoint

    def manifest(self, number: int) -> Path:
        """The path of the manifest of a checkpoint."""
        return self._manifests / f"{number:010d}.json"

    def numbers(self) -> list[int]:
        """The numbers of the checkpoints, in ascending order."""
        return [number for number in self._on_disk() if number <= self._last]

    def _on_disk(self) -> list[int]:
        return sorted(int(path.stem) for path in self._manifests.glob("*.json") if path.stem.isdecimal())

    def _read(self, number: int) -> Checkpoint:
        return _parse(self.manifest(number))


class CheckpointStore(CheckpointReader):
    """The checkpoints of one run, numbered in the order in which they were written; one process writes them.

    `keep` is the period, in microseconds, of which one checkpoint a day is kept; None: without end.
    """

    def __init__(
        self,
        run: Path,
        versions: Mapping[str, str],
        last: int = -1,
        layers: Layers | None = None,
        keep: int | None = 7 * DAY,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self.layers = layers or Layers(run / "layers")
        super().__init__(run, last)
        make_folder(self._manifests)
        make_folder(self.layers.folder)
        self._versions, self._keep, self._clock = dict(versions), keep, clock
        self._start = self._written = 0
        self._known: dict[int, Checkpoint] = {}

    def begin(self) -> None:
        """Begin a start: no process of an earlier start writes a layer with the same name."""
        self._known = {}
        claims = list(self.layers.folder.glob("*.start"))
        names = [path.name for path in (*claims, *self.layers.folder.glob("*.layer*"))]
        starts = [int(found[0]) for found in map(re.compile(r"\d+").match, names) if found is not None]
        self._start, self._written = max(starts, default=-1) + 1, 0
        (self.layers.folder / f"{self._start:06d}.start").touch()
        for claim in claims:
            claim.unlink()

    def next_layer(self) -> str:
        """The name of another layer."""
        self._written += 1
        return f"{self._start:06d}-{self._written - 1:010d}"

    def write(
        self,
        epoch: int,
        applied: AppliedEpochs,
        sections: Sections,
        watermarks: Mapping[str, int | None] | None = None,
    ) -> Work[Checkpoint]:
        """Write the manifest of the next checkpoint durably. It counts once `counts` is called."""
        assert epoch <= applied.last, (
            f"a checkpoint after epoch {epoch} needs a state with that epoch; this one has none after {applied.last}"
        )
        checkpoint = Checkpoint(
            number=self._last + 1,
            epoch=epoch,
            applied=applied,
            versions=self._versions,
            at=self._clock(),
            watermarks=watermarks or {},
            sections=sections,
            shards=self.layers.shards,
        )
        path = self.manifest(checkpoint.number)
        yield from write_durably(self.layers.files, path, [checkpoint.content])
        return checkpoint

    def newest_states(self, checkpoint: Checkpoint | None) -> StoredStates:
        """The states with which a start continues: those in a checkpoint, or empty ones."""
        if checkpoint is None:
            return StoredStates(self._folder, {}, self.layers.shards)
        for file in sorted(checkpoint.files):
            if not (self._folder / file).exists():
                message = (
                    f"{self._folder / file} is gone, and checkpoint {checkpoint.number} needs this layer; put the file "
                    "back, or start over with --fresh"
                )
                raise AlteredCheckpoint(message)
        return self.states(checkpoint)

    def counts(self, checkpoint: Checkpoint) -> None:
        """Take note that the line of a checkpoint in the epoch log is durable."""
        assert checkpoint.number == self._last + 1, (checkpoint.number, self._last)
        self._last = checkpoint.number
        self._known[checkpoint.number] = checkpoint

    def ahead(self) -> int:
        """The last epoch in any manifest, even if it does not count; -1 without manifests."""
        return max((self._read(number).epoch for number in self._on_disk()), default=-1)

    def thin(self, needed: Collection[int] = ()) -> Work[None]:
        """Remove the checkpoints that need not be kept, and the layers that no other checkpoint names.

        `needed` are numbers of checkpoints to keep; those of savepoints are kept too. No layer may be in writing.
        """
        checkpoints = {number: self._read(number) for number in self.numbers()}
        keeping = kept({number: each.at for number, each in checkpoints.items()}, self._clock(), self._keep)
        keeping |= {each.checkpoint for each in savepoints(self._manifests.parent)} | set(needed)
        for number in sorted(checkpoints.keys() - keeping):
            self.layers.files.remove(self.manifest(number))
            self._known.pop(number, None)
            yield
        named = {file for number, each in checkpoints.items() if number in keeping for file in each.files}
        for path in sorted(self.layers.folder.glob("*.layer*")):
            if path.name not in named:
                self.layers.files.remove(path)
                yield

    def _read(self, number: int) -> Checkpoint:
        if number not in self._known:
            self._known[number] = super()._read(number)
        return self._known[number]


def _parse(path: Path) -> Checkpoint:
    data = path.read_bytes()
    body = data[_BODY:]
    if data[:_BODY] != _PREFIX + hashlib.sha256(body).hexdigest().encode():
        message = f"{path} was altered: its content does not match its digest; start over with --fresh"
        raise AlteredCheckpoint(message)
    fields: dict[str, Any] = json.loads(data)
    sections = {
        step: {int(shard): [Section(*section) for section in chain] for shard, chain in shards.items()}
        for step, shards in fields["sections"].items()
    }
    return Checkpoint(
        number=int(path.stem),
        epoch=fields["epoch"],
        applied=AppliedEpochs.from_line(fields["applied"]),
        versions=fields["versions"],
        at=fields["at"],
        watermarks=fields["watermarks"],
        sections=sections,
        shards=fields["shards"],
    )


def read_newest(run: Path, read: Callable[[Checkpoint, States], _Read]) -> _Read | None:
    """Call `read` with the newest checkpoint of a run and return its result; None if there is no checkpoint.

    A run may write and drop checkpoints meanwhile. If it drops a file that `read` needs, `read` is called again with
    the newer checkpoint.
    """
    vanished = None
    while (checkpoint := (reader := _reader(run)).newest()) is not None:
        try:
            return read(checkpoint, reader.states(checkpoint))
        except FileNotFoundError:  # dropped meanwhile: there is a newer one
            if vanished == checkpoint.number:
                message = (
                    f"{run}: a file that checkpoint {checkpoint.number} needs is gone; put it back, or start over with "
                    "--fresh"
                )
                raise AlteredCheckpoint(message) from None
            vanished = checkpoint.number
    return None


def _reader(run: Path) -> CheckpointReader:
    epochs = run / "epochs"
    return CheckpointReader(run, EpochReader(epochs).totals().checkpoint if epochs.is_dir() else -1)

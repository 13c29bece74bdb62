"""The base of a run: the positions, the state and the cuts with which a new run directory begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from millstream.log.epochs import Epoch, EpochLog, NewModel, Totals
from millstream.log.journal.durability import write_whole
from millstream.runs.directory import RunDirectory
from millstream.state.checkpoints import Checkpoint, CheckpointReader
from millstream.state.version_store import VersionStore

__all__ = ["RunBase", "StoredState"]


class _State(Protocol):
    """The state of a base, which can be written into a run directory."""

    def write(self, run: Path) -> None:
        """Write a checkpoint with its layers durably; its number is that of the base."""
        ...


@dataclass(frozen=True)
class StoredState:
    """The state in a checkpoint of another run, perhaps with only some of its sections."""

    reader: CheckpointReader
    checkpoint: Checkpoint

    def write(self, run: Path) -> None:
        """Copy the checkpoint, and link its layers."""
        self.reader.copy(self.checkpoint, run)


@dataclass(frozen=True)
class RunBase:
    """The beginning of a run: positions, state and cuts.

    `totals` has the partitions with their positions after the epoch `totals.base.epoch`, and `state` is the state
    there; None for a run that begins with nothing. `epochs` are cut already: the first start processes them, as after a
    crash, before it cuts epochs of its own. `origin` says where the base comes from.
    """

    totals: Totals
    state: _State | None
    epochs: Iterable[Epoch]
    origin: Mapping[str, Any]
    versions: VersionStore
    """The versions of models that the epochs name."""

    def write(self, directory: RunDirectory, passed: Callable[[str], None] = lambda part: None) -> None:
        """Write the base durably into a folder that is not a run directory yet; `passed` is called after each part."""
        if self.state is not None:
            self.state.write(directory.path)
        passed("state")
        versions = VersionStore(directory.models)
        log = EpochLog(directory.epochs, self.totals)
        try:
            for epoch in self.epochs:
                for event in epoch.events:
                    if isinstance(event, NewModel):
                        versions.bring(event.digest, self.versions)
                log.cut(epoch)
            log.sync()
        finally:
            log.close()
        passed("cuts")
        write_whole(directory.origin, json.dumps(self.origin, indent=1))

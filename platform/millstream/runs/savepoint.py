"""Savepoints of a run: pins the newest checkpoint under a name, also while the run goes on."""

from __future__ import annotations

import re

from millstream.config.pipeline import NAME
from millstream.errors import ConfigError, Contradiction, MillstreamError, Truncated
from millstream.log.epochs import Base, EpochReader
from millstream.runs.directory import RunDirectory
from millstream.state.checkpoints import Checkpoint, CheckpointReader
from millstream.state.savepoints import Savepoint, savepoints
from millstream.suggestions import suggestion

__all__ = ["delete_savepoint", "find_savepoint", "make_savepoint"]

_ATTEMPTS = 5
"""A run that goes on may drop a checkpoint before it is pinned: then a newer one is taken."""


def make_savepoint(directory: RunDirectory, name: str) -> Checkpoint:
    """Pin the newest checkpoint under a name, and return it."""
    if not re.match(NAME, name) or name.isdecimal():
        message = f"{name!r} is no name of a savepoint: give letters, digits, `_` and `-`, at most 64, and no number"
        raise ConfigError(message)
    directory.check_epoch_log()
    if name in (known := {each.name: each for each in savepoints(directory.path)}):
        message = (
            f"{directory.path} has a savepoint {name!r}, checkpoint {known[name].checkpoint}; give another name, or "
            "delete it first with --delete"
        )
        raise Contradiction(message)
    for attempt in range(_ATTEMPTS):
        try:
            return _pin_newest(directory, name)
        except (FileNotFoundError, Truncated):
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _pin_newest(directory: RunDirectory, name: str) -> Checkpoint:
    checkpoint = None
    if any(directory.epochs.glob("*")):
        reader = EpochReader(directory.epochs)
        checkpoints = CheckpointReader(directory.path, reader.totals().checkpoint)
        checkpoint = checkpoints.newest()
    if checkpoint is None:
        message = f"{directory.path} has no checkpoint yet; the run writes one with its first epochs"
        raise MillstreamError(message)
    savepoint = Savepoint(name, checkpoint.number)
    savepoint.write(directory.path, reader.totals_at(Base(checkpoint.epoch, checkpoint.number)))
    try:  # the run may have dropped the checkpoint just before it was pinned
        checkpoints.numbered(checkpoint.number)
        for file in checkpoint.files:
            (directory.layers / file).stat()
    except FileNotFoundError:
        savepoint.delete(directory.path)
        raise
    return checkpoint


def find_savepoint(directory: RunDirectory, name: str) -> Savepoint:
    """The savepoint of this name; `MillstreamError` if there is none."""
    known = {each.name: each for each in savepoints(directory.path)}
    if name not in known:
        meant = suggestion(name, known, f"there are {', '.join(known)}" if known else "it has none")
        message = f"{directory.path} has no savepoint {name!r}{meant}"
        raise MillstreamError(message)
    return known[name]


def delete_savepoint(directory: RunDirectory, name: str) -> Savepoint:
    """Delete a savepoint, and return it; the run removes its checkpoint when it is no longer needed."""
    found = find_savepoint(directory, name)
    found.delete(directory.path)
    return found

"""Savepoints: checkpoints with a name, which no run removes. Each is a file of the run directory.

The file has all that a run needs to begin there, besides the checkpoint: the epochs around it may be gone by then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from millstream.errors import AlteredLog
from millstream.log.epochs import Totals
from millstream.log.journal.durability import make_folder, sync_folder, write_whole

__all__ = ["Savepoint", "savepoints"]

_FOLDER = "savepoints"
_FILE = re.compile(r"(\d{10})-(.+)\.json")


@dataclass(frozen=True)
class Savepoint:
    """A name of a checkpoint."""

    name: str
    checkpoint: int

    def path(self, run: Path) -> Path:
        """The file of the savepoint in a run directory."""
        return run / _FOLDER / f"{self.checkpoint:010d}-{self.name}.json"

    def write(self, run: Path, totals: Totals) -> None:
        """Write the file durably; `totals` are those of an epoch log that begins after the checkpoint."""
        make_folder(run / _FOLDER)
        write_whole(self.path(run), totals.header())

    def read(self, run: Path) -> Totals:
        """The totals of an epoch log that begins after the checkpoint."""
        path = self.path(run)
        try:
            return Totals.from_header(path.read_bytes())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{path} was altered: {type(error).__name__}: {error}; delete the savepoint"
            raise AlteredLog(message) from error

    def delete(self, run: Path) -> None:
        """Delete the file durably; the run removes the checkpoint when it is no longer needed."""
        self.path(run).unlink()
        sync_folder(run / _FOLDER)


def savepoints(run: Path) -> list[Savepoint]:
    """The savepoints of a run, the oldest first; only the names of the files are read."""
    found = filter(None, (_FILE.fullmatch(path.name) for path in sorted((run / _FOLDER).glob("*.json"))))
    return [Savepoint(match[2], int(match[1])) for match in found]

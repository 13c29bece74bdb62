"""The lock of a folder that one process writes at a time; the kernel lets go of it when that process dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from weakref import WeakValueDictionary

from millstream.errors import InUse

__all__ = ["LOCK", "FolderLock", "locked"]

LOCK = "_lock"
"""Its file, in the folder; Spark, pandas and DuckDB leave out names that begin so."""

_TRIES, _WAIT = 5, 0.05
"""Whoever looks whether something is in use, and whoever starts a process, holds a lock for a moment."""


def locked(descriptor: int) -> bool:
    """Whether this file is locked now for whoever has it open so, and for nobody else."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_WAIT)
        else:
            return True
    return False


class FolderLock:
    """Held by the one writer of a folder until it lets go; taking it changes nothing in the folder.

    Another process is refused. In the same process the newest lock takes over, and the one before is no longer `held`:
    what a failed run has dropped without closing it keeps nobody out, and can write no more.
    """

    def __init__(self, folder: Path) -> None:
        self.held = False
        self._file = -1
        key = os.path.realpath(folder)
        if (before := _locks.get(key)) is not None:
            before.release()
        while not self.held:
            self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            if not locked(self._file):
                self.release()
                message = (
                    f"another process is appending to {folder}, which has one writer at a time; "
                    "wait for it, stop it, or choose another folder"
                )
                raise InUse(message)
            self.held = os.fstat(self._file).st_nlink > 0  # it may have been cleared away meanwhile
            if not self.held:
                self.release()
        _locks[key] = self

    def release(self) -> None:
        self.held = False
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


_locks: WeakValueDictionary[str, FolderLock] = WeakValueDictionary()

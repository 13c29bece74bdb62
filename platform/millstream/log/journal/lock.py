"""The lock of a folder that one process writes at a time. The kernel releases the lock when that process dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from weakref import WeakValueDictionary

from millstream.errors import InUse

__all__ = ["LOCK", "FolderLock", "try_lock"]

LOCK = "_lock"
"""The name of the lock file in the folder. Spark, pandas and DuckDB ignore names that begin with an underscore."""

_TRIES, _WAIT = 5, 0.05
"""Another holder may have the lock for a moment only: a check for use, or a process between fork and exec."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file exclusively; false if another open file description holds the lock after several tries."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_WAIT)
        else:
            return True
    return False


class FolderLock:
    """The lock that the one writer of a folder holds until `release`; locking changes no other file in the folder.

    A second process is refused. In the same process the newest lock takes over, and the lock before is no longer
    `held`: a writer that a failed run did not close blocks no other writer, and writes no more.
    """

    def __init__(self, folder: Path) -> None:
        self.held = False
        self._file = -1
        key = os.path.realpath(folder)
        if (previous := _locks.get(key)) is not None:
            previous.release()
        while not self.held:
            self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            if not try_lock(self._file):
                self.release()
                message = (
                    f"another process is appending to {folder}, which has one writer at a time; "
                    "wait for it, stop it, or choose another folder"
                )
                raise InUse(message)
            self.held = os.fstat(self._file).st_nlink > 0  # another process may have deleted the lock file meanwhile
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

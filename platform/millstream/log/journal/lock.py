"""The lock of a folder that has one writer at a time. The kernel releases the lock when the writer's process dies."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

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

    A second lock is refused, in another process and in the same one. A lock that nothing refers to is released.
    """

    def __init__(self, folder: Path) -> None:
        self._file = -1
        self._releasing = threading.Lock()
        while not self.held:
            self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            if not try_lock(self._file):
                self.release()
                message = (
                    f"another writer, in this process or another, is appending to {folder}, which has one "
                    "writer at a time; wait for it, stop it, or choose another folder"
                )
                raise InUse(message)
            if not os.fstat(self._file).st_nlink:  # the writer before may have deleted the lock file meanwhile
                self.release()

    @property
    def held(self) -> bool:
        return self._file >= 0

    def release(self) -> None:
        """Release the lock; also from several threads at the same time."""
        with self._releasing:
            file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()

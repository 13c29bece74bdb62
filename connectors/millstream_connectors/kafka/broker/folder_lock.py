"""An exclusive lock on a folder, across processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.errors import MillstreamError

__all__ = ["locked"]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process has locked this folder, and lock it; a missing folder is created."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise MillstreamError(f"the folder {folder} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink > 0:  # another process may have deleted the folder in the meantime
                yield
                return
        finally:
            os.close(handle)

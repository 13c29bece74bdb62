"""Creating and writing files and folders so that they survive a loss of power.

On macOS, only F_FULLFSYNC writes what the disk itself has cached.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

__all__ = ["make_folder", "sync_data", "sync_file", "sync_folder", "write_whole"]

_UNSUPPORTED = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)


def sync_file(handle: int) -> None:
    """Make the content and the attributes of an open file durable."""
    if not _synced_fully(handle):
        os.fsync(handle)


def sync_data(handle: int) -> None:
    """Make the content of an open file durable, with those attributes that reading it needs."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:
        sync_file(handle)


def _synced_fully(handle: int) -> bool:
    """Sync an open file down to the disk with F_FULLFSYNC; false if the system or the file system has no such call."""
    command = getattr(fcntl, "F_FULLFSYNC", None)
    if command is None:
        return False
    try:
        fcntl.fcntl(handle, command)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make all creations, renames and removals in a folder durable: they survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        sync_file(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically and durably: a reader, or a loss of power, never finds a part of the content.

    Several processes may write the same file: the last one wins.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with partial.open("w" if isinstance(content, str) else "wb") as file:
            file.write(content)
            file.flush()
            sync_file(file.fileno())
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)

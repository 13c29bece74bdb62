"""Creating and writing files and folders so that they survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["make_folder", "sync_folder", "write_whole"]


def sync_folder(folder: Path) -> None:
    """Make all creations, renames and removals in a folder durable: they survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically and durably: a reader, or a loss of power, never finds a part of the text.

    Several processes may write the same file: the last one wins.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with partial.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)

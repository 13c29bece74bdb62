"""Operations on the files of checkpoints, one at a time, so that a simulator can end a process between any two."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from millstream.log.journal.durability import sync_file, sync_folder
from millstream.state.background import Work, finish

__all__ = ["DiskFiles", "Files", "link_durably", "write_durably"]

_LARGE_BYTES = 1 << 16
_CHUNK = 1 << 20


class Files(Protocol):
    """Operations on files. A written file and a new name survive a loss of power once they are synced."""

    def write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        """Create a file, or replace its content."""
        ...

    def sync(self, path: Path) -> None:
        """Make the content of a file durable."""
        ...

    def rename(self, path: Path, target: Path) -> None: ...

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        ...


class DiskFiles:
    """The files of this machine."""

    def write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
                _start_writeback(file, len(chunk))

    def sync(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            sync_file(handle)
        finally:
            os.close(handle)

    def rename(self, path: Path, target: Path) -> None:
        path.rename(target)

    def sync_folder(self, folder: Path) -> None:
        sync_folder(folder)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def write_durably(files: Files, path: Path, chunks: Iterable[bytes | memoryview]) -> Work[None]:
    """Write a file atomically and durably: with its name it is complete."""
    partial = path.with_name(f"{path.name}.tmp")
    try:
        files.write(partial, chunks)
        yield
        files.sync(partial)
        yield
        files.rename(partial, path)
        yield
        files.sync_folder(path.parent)
        yield
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, f"{error.strerror}; the checkpoint was not written", str(path)) from error


def link_durably(path: Path, target: Path) -> None:
    """Give a durable file that never changes a second name, durably; where that is impossible, copy the file."""
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, one without links, or a file of another user
        with path.open("rb") as file:
            finish(write_durably(DiskFiles(), target, _chunks(file)))
    else:
        sync_folder(target.parent)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _start_writeback(file: BinaryIO, size: int) -> None:
    """Let the disk start to write the last `size` bytes while their digest is computed: the sync then waits less."""
    if size >= _LARGE_BYTES and hasattr(os, "posix_fadvise"):
        file.flush()
        os.posix_fadvise(file.fileno(), file.tell() - size, size, os.POSIX_FADV_DONTNEED)

"""Values that need not fit into memory: a RocksDB of this process alone.

It lies in a folder for temporary files. That is enough: nothing in it outlives the process, since what must is in the
checkpoints, from which it is filled again at every start. The folder is removed with what uses it; that of a process
which was killed, by the next one that makes or has made such folders.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteBatch, WriteOptions

from millstream.errors import MillstreamError, Unavailable

__all__ = ["Rocks"]

_PREFIX = "millstream-keys-"
_CACHE_BYTES = 64 << 20
_MEMTABLE_BYTES = 32 << 20


class Rocks:
    """Values in RocksDB. Nothing is made before the first of them comes.

    >>> values = Rocks()
    >>> values.put("ann", b"1")
    >>> values.get("ann"), values.get("bob"), list(values.in_order())
    (b'1', None, [('ann', b'1')])
    """

    def __init__(self) -> None:
        self._database: Rdict | None = None

    def get(self, key: str) -> bytes | None:
        try:
            found: bytes | None = self._database.get(key.encode()) if self._database is not None else None
        except Exception as error:
            raise _failed(error) from error
        return found

    def put(self, key: str, value: bytes | None) -> None:
        try:
            database = self._database if self._database is not None else self._made()
            if value is None:
                database.delete(key.encode())
            else:
                database.put(key.encode(), value)
        except Exception as error:
            raise _failed(error) from error

    def put_all(self, part: Mapping[str, bytes | None]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in part.items():
            if value is None:
                batch.delete(key.encode())
            else:
                batch.put(key.encode(), value)
        try:
            if part:
                (self._database if self._database is not None else self._made()).write(batch)
        except Exception as error:
            raise _failed(error) from error

    def entries(self) -> Iterator[tuple[str, bytes]]:
        return self.in_order()

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        if self._database is None:
            return iter(())
        found: Iterator[tuple[bytes, bytes]] = iter(self._database.items())  # type: ignore[arg-type]  # raw mode
        return ((key.decode(), value) for key, value in found)  # in order of text, as UTF-8 is

    def _made(self) -> Rdict:
        folder, lock = _own_folder()
        self._database = Rdict(str(folder), _options())
        options = WriteOptions()
        options.disable_wal = True  # type: ignore[method-assign,assignment]  # its stub is wrong
        self._database.set_write_options(options)
        weakref.finalize(self, _discard, self._database, folder, lock)
        return self._database


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_CACHE_BYTES))
    table.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(_MEMTABLE_BYTES)
    options.set_keep_log_file_num(1)
    return options


def _failed(error: Exception) -> MillstreamError:
    """RocksDB's own errors have no class that distinguishes them from a mistake in a record."""
    kind = Unavailable if os.strerror(errno.ENOSPC) in str(error) else MillstreamError
    return kind(f"state by key in RocksDB: {error}; make room there, or set TMPDIR to a folder that has some")


def _discard(database: Rdict, folder: Path, lock: int) -> None:
    with suppress(Exception):  # it may be unable to write, what nobody will read
        database.close()
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _own_folder() -> tuple[Path, int]:
    """A new folder, and the lock on it, which the kernel lets go of when this process dies."""
    _remove_left()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError, BlockingIOError):  # another process has taken it for one that was left
            lock = _locked(folder)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_left() -> None:
    """Remove the folders of processes that are no more."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, in use, or gone by now
            lock = _locked(left)
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)


atexit.register(_remove_left)  # of workers, which are killed


def _locked(folder: Path) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

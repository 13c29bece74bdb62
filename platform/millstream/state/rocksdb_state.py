"""Storage of keyed state that may be larger than memory: a RocksDB database that one process uses.

The database is in a temporary folder. It need not be durable: checkpoints hold the state, and every start fills the
database from a checkpoint. The folder is deleted together with the object that uses it. If the process was killed, the
folder is deleted when another process makes such a folder, or when a process that imported this module ends.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from millstream.errors import MillstreamError, Unavailable

__all__ = ["in_rocksdb"]

_PREFIX = "millstream-keys-"
_CACHE_BYTES = 64 << 20
_MEMTABLE_BYTES = 32 << 20


def in_rocksdb(shards: int) -> Sequence[Rocks]:
    """Storage of so many shards in one database, which is created when the first value is put."""
    database = _Database()
    return [Rocks(database, shard) for shard in range(shards)]


class _Database:
    """A database that is opened with the first write."""

    def __init__(self) -> None:
        self.opened: Rdict | None = None

    def open(self) -> Rdict:
        if self.opened is None:
            folder, lock = _make_folder()
            self.opened = Rdict(str(folder), _options())
            options = WriteOptions()
            options.disable_wal = True  # type: ignore[method-assign,assignment]  # the type stub is wrong
            self.opened.set_write_options(options)
            weakref.finalize(self, _discard, self.opened, folder, lock)
        return self.opened


class Rocks:
    """The values of one shard in RocksDB. The number of the shard is in front of each key.

    >>> _, values = in_rocksdb(2)
    >>> values.put("ann", b"1")
    >>> values.get("ann"), values.get("bob"), list(values.in_order())
    (b'1', None, [('ann', b'1')])
    """

    def __init__(self, database: _Database, shard: int) -> None:
        self._database = database
        self._prefix, self._end = shard.to_bytes(2, "big"), (shard + 1).to_bytes(2, "big")

    def get(self, key: str) -> bytes | None:
        database = self._database.opened
        try:
            found: bytes | None = database.get(self._prefix + key.encode()) if database is not None else None
        except Exception as error:
            raise _error(error) from error
        return found

    def put(self, key: str, value: bytes | None) -> None:
        try:
            database = self._database.open()
            if value is None:
                database.delete(self._prefix + key.encode())
            else:
                database.put(self._prefix + key.encode(), value)
        except Exception as error:
            raise _error(error) from error

    def put_all(self, part: Mapping[str, bytes | None]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in part.items():
            if value is None:
                batch.delete(self._prefix + key.encode())
            else:
                batch.put(self._prefix + key.encode(), value)
        try:
            if part:
                self._database.open().write(batch)
        except Exception as error:
            raise _error(error) from error

    def entries(self) -> Iterator[tuple[str, bytes]]:
        return self.in_order()

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        database = self._database.opened
        if database is None:
            return iter(())
        options = ReadOptions()
        options.set_iterate_upper_bound(self._end)
        items = database.items(from_key=self._prefix, read_opt=options)
        found: Iterator[tuple[bytes, bytes]] = iter(items)  # type: ignore[arg-type]  # raw mode
        return ((key[2:].decode(), value) for key, value in found)  # UTF-8 sorts like the text


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


def _error(error: Exception) -> MillstreamError:
    """The error to raise for an error of RocksDB, which has no exception class of its own."""
    kind = Unavailable if os.strerror(errno.ENOSPC) in str(error) else MillstreamError
    return kind(f"state by key in RocksDB: {error}; free disk space there, or set TMPDIR to a folder with more space")


def _discard(database: Rdict, folder: Path, lock: int) -> None:
    with suppress(Exception):  # closing may fail to write, but nothing reads the files again
        database.close()
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _make_folder() -> tuple[Path, int]:
    """A new folder, and the lock on it, which the kernel releases when this process dies."""
    _remove_abandoned()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError, BlockingIOError):  # another process has deleted the folder as an abandoned one
            lock = _lock(folder)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_abandoned() -> None:
    """Delete the folders of processes that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # the folder is of another user, in use, or deleted
            lock = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


atexit.register(_remove_abandoned)  # the folders of workers, which are killed


def _lock(folder: Path) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

"""Saves: the state of all steps after one epoch, written beside the work, whole or not at all.

A save is one file: a header, the arrays, a digest over both. An array that changed little since the save before is
written as what changed; a save that leans on others names them, and at least every sixteenth leans on none.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from millstream.errors import AlteredLog
from millstream.log.durable import make_folder, sync_folder
from millstream.state.applied import Applied

__all__ = ["Array", "Save", "SaveReader", "SaveStore", "Saver", "States", "newest_states"]

Array = np.ndarray[Any, Any]
States = Mapping[str, Mapping[str, Array | bytes]]
"""The state of every step: by step name, then by the step's own names."""

_MAGIC = b"millstream save 1\n"
_LONGEST_CHAIN = 16
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Save:
    """One save on disk. `leans_on` is the number of the save before it in its chain, if any."""

    number: int
    epoch: int
    applied: Applied
    versions: Mapping[str, str]
    leans_on: int | None
    chain: int


def _flat(value: Array | bytes) -> Array:
    return np.frombuffer(value, dtype=np.uint8) if isinstance(value, bytes) else np.ascontiguousarray(value).reshape(-1)


def _bits(array: Array) -> Array:
    """The array as whole numbers, so that comparing is by bits (NaN equals itself)."""
    return array.view({8: np.uint64, 4: np.uint32, 2: np.uint16, 1: np.uint8}[array.dtype.itemsize])


def _changed(old: Array | bytes | None, new: Array | bytes) -> Array | None:
    """The places where `new` differs from `old`; None where they cannot be compared or differ in most places."""
    if old is None or isinstance(old, bytes) != isinstance(new, bytes):
        return None
    before, after = _flat(old), _flat(new)
    if before.shape != after.shape or before.dtype != after.dtype or after.dtype.itemsize not in (1, 2, 4, 8):
        return None
    if not isinstance(new, bytes) and not isinstance(old, bytes) and old.shape != new.shape:
        return None
    places = np.flatnonzero(_bits(before) != _bits(after))
    return places if len(places) * 2 < len(after) else None


class SaveReader:
    """Looks at the saves of a run directory, also beside the run that writes them; changes nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saves: dict[int, Save] = {}
        while not self._saves and (paths := sorted(folder.glob("*.save"))):
            for path in paths:
                with suppress(FileNotFoundError):  # the run has dropped it since, for a newer one
                    save = self._header(path)
                    self._saves[save.number] = save

    def newest(self, upto: int | None = None) -> Save | None:
        """The save written last; or the newest of an epoch not beyond `upto`."""
        usable = [save for save in self._saves.values() if upto is None or save.epoch <= upto]
        return max(usable, key=lambda save: save.number) if usable else None

    def load(self, save: Save) -> dict[str, dict[str, Array | bytes]]:
        """The states in a save, every digest checked."""
        path = self._path(save.number)
        content = path.read_bytes()
        body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            message = f"{path} was altered: its digest does not fit its content; the run cannot go on from it"
            raise AlteredLog(message)
        known = self.load(self._saves[save.leans_on]) if save.leans_on is not None else {}
        header, at = self._parse(body)
        states: dict[str, dict[str, Array | bytes]] = {}
        for entry in header["arrays"]:
            dtype = np.dtype(entry["dtype"])
            step, name, changed = entry["step"], entry["name"], entry.get("changed")
            if changed is None:
                flat = np.frombuffer(body, dtype, entry["length"], at).copy()
                at += flat.nbytes
            else:
                places = np.frombuffer(body, np.int64, changed, at)
                at += places.nbytes
                flat = _flat(known[step][name]).copy()
                flat[places] = np.frombuffer(body, dtype, changed, at)
                at += changed * dtype.itemsize
            value: Array | bytes = flat.tobytes() if entry["shape"] is None else flat.reshape(entry["shape"])
            states.setdefault(step, {})[name] = value
        return states

    def written_at(self, save: Save) -> int | None:
        """When it was written, in microseconds UTC; None if it has been dropped since."""
        with suppress(FileNotFoundError):
            return self._path(save.number).stat().st_mtime_ns // 1000
        return None

    def size(self, save: Save) -> int | None:
        """Its bytes on disk; None if it has been dropped since."""
        with suppress(FileNotFoundError):
            return self._path(save.number).stat().st_size
        return None

    def numbers(self) -> list[int]:
        return sorted(self._saves)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.save"

    def _parse(self, body: bytes) -> tuple[dict[str, Any], int]:
        at = len(_MAGIC)
        length = int.from_bytes(body[at : at + 8], "little")
        header: dict[str, Any] = json.loads(body[at + 8 : at + 8 + length])
        return header, at + 8 + length

    def _header(self, path: Path) -> Save:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC) + 8)
            if start[: len(_MAGIC)] != _MAGIC:
                message = f"{path} is not a save; move it away or start over with --fresh"
                raise AlteredLog(message)
            header = json.loads(file.read(int.from_bytes(start[len(_MAGIC) :], "little")))
        return Save(
            header["number"],
            header["epoch"],
            Applied.from_line(header["applied"]),
            header["versions"],
            header["leans_on"],
            header["chain"],
        )


class SaveStore(SaveReader):
    """The saves of one run directory, numbered in the order they were written."""

    def __init__(self, folder: Path, versions: Mapping[str, str]) -> None:
        make_folder(folder)
        for torn in folder.glob("*.tmp"):
            torn.unlink()
        super().__init__(folder)
        self._versions = dict(versions)
        self._last: tuple[int, States] | None = None

    def write(self, epoch: int, applied: Applied, states: States) -> Save:
        """Write a save; durable on return. The arrays must stay as they are from now on."""
        number = max(self._saves, default=-1) + 1
        before, known = self._last if self._last is not None else (None, {})
        chain = self._saves[before].chain + 1 if before is not None else 0
        lean = before is not None and chain < _LONGEST_CHAIN
        arrays: list[dict[str, Any]] = []
        chunks: list[bytes | memoryview] = []
        leans = False
        for step, state in states.items():
            for name, value in state.items():
                flat = _flat(value)
                entry = {"step": step, "name": name, "dtype": flat.dtype.str, "length": len(flat)}
                entry["shape"] = None if isinstance(value, bytes) else list(value.shape)
                places = _changed(known.get(step, {}).get(name), value) if lean else None
                if places is None:
                    parts = [flat]
                else:
                    leans = True
                    entry["changed"] = len(places)
                    parts = [places.astype(np.int64), flat[places]]
                arrays.append(entry)
                chunks.extend(part.view(np.uint8).data for part in parts)
        save = Save(number, epoch, applied, self._versions, before if leans else None, chain if leans else 0)
        header = {
            "number": number,
            "epoch": epoch,
            "applied": applied.line(),
            "versions": save.versions,
            "leans_on": save.leans_on,
            "chain": save.chain,
            "arrays": arrays,
        }
        self._write_file(number, json.dumps(header).encode(), chunks)
        self._saves[number] = save
        self._last = (number, states)
        return save

    def drop_before(self, number: int) -> None:
        """Delete the saves that neither `number` nor a later one needs."""
        needed: set[int] = set()
        for save in [s for s in self._saves.values() if s.number >= number]:
            link: int | None = save.number
            while link is not None and link not in needed:
                needed.add(link)
                link = self._saves[link].leans_on
        for gone in sorted(self._saves.keys() - needed, reverse=True):  # leaners first
            self._path(gone).unlink(missing_ok=True)
        self._saves = {n: save for n, save in self._saves.items() if n in needed}

    def _write_file(self, number: int, header: bytes, chunks: list[bytes | memoryview]) -> None:
        path = self._path(number)
        partial = path.with_suffix(".tmp")
        digest = hashlib.sha256()
        try:
            with partial.open("wb") as file:
                for chunk in (_MAGIC, len(header).to_bytes(8, "little"), header, *chunks):
                    digest.update(chunk)
                    file.write(chunk)
                file.write(digest.digest())
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise OSError(error.errno, f"{error.strerror}; the save was not written", str(path)) from error
        sync_folder(self._folder)


def newest_states(folder: Path) -> tuple[Save, States] | None:
    """The newest save that is found, and its states, beside a run that may be writing and dropping saves."""
    vanished = None
    while (save := (reader := SaveReader(folder)).newest()) is not None:
        try:
            return save, reader.load(save)
        except (FileNotFoundError, KeyError):  # dropped since: there is a newer one
            if vanished == save.number:
                message = f"{folder}: a file that save {save.number} needs is gone; start over with --fresh"
                raise AlteredLog(message) from None
            vanished = save.number
    return None


class Saver:
    """Writes saves beside the work, one at a time; what goes wrong there comes out at the next call."""

    def __init__(self, store: SaveStore, done: Callable[[Save], None]) -> None:
        self._store = store
        self._done = done
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, epoch: int, applied: Applied, states: States) -> None:
        """Begin a save; waits for the one before."""
        self.wait()
        self._thread = threading.Thread(target=self._write, args=(epoch, applied, states), name="millstream-save")
        self._thread.start()

    def wait(self) -> None:
        """Wait until no save is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write(self, epoch: int, applied: Applied, states: States) -> None:
        try:
            self._done(self._store.write(epoch, applied, states))
        except BaseException as error:  # carried to the caller of `wait`
            self._error = error

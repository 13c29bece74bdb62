"""The files of checkpoints on a simulated disk. Each operation is an effect, and may be lost with the power."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from millstream.engines.simulated.world.faults import Died, Killed
from millstream.engines.simulated.world.world import World
from millstream.state.files import Files

__all__ = ["SimulatedFiles", "UnsyncedFiles"]

_TORN = 0.5
"""The share of deaths during a write that leave a part of the file."""

_Undo = tuple[Path, bytes | None]
"""A path, and what was there before an operation; None if there was no file."""


class UnsyncedFiles:
    """The changes that a loss of power may undo: contents, and names in folders, that are not synced."""

    def __init__(self) -> None:
        self._contents: set[Path] = set()
        self._names: dict[Path, list[tuple[_Undo, ...]]] = {}
        """By folder, for each operation on names since the last sync: the paths as they were."""

    def write(self, path: Path, content: bytes) -> None:
        self._names.setdefault(path.parent, []).append(((path, _content(path)),))
        self._contents.add(path)
        path.write_bytes(content)

    def sync(self, path: Path) -> None:
        self._contents.discard(path)

    def rename(self, path: Path, target: Path) -> None:
        self._names.setdefault(path.parent, []).append(((path, _content(path)), (target, _content(target))))
        if path in self._contents:
            self._contents.remove(path)
            self._contents.add(target)
        path.rename(target)

    def sync_folder(self, folder: Path) -> None:
        self._names.pop(folder, None)

    def remove(self, path: Path) -> None:
        self._names.setdefault(path.parent, []).append(((path, _content(path)),))
        path.unlink(missing_ok=True)

    def lose_power(self, rng: random.Random) -> None:
        """Undo the last operations on names in each folder, and damage contents."""
        for operations in self._names.values():
            for operation in reversed(operations[rng.randint(0, len(operations)) :]):
                for path, before in operation:
                    if before is None:
                        path.unlink(missing_ok=True)
                    else:
                        path.write_bytes(before)
        for path in sorted(self._contents):
            if path.exists() and rng.random() < _TORN:
                content = path.read_bytes()
                kept = rng.randrange(len(content) + 1)
                path.write_bytes(content[:kept] + rng.choice((bytes, rng.randbytes))(len(content) - kept))
        self._contents, self._names = set(), {}


class SimulatedFiles(Files):
    """The operations of one process: it may die before or after each one, or in the middle of a write."""

    def __init__(self, disk: UnsyncedFiles, world: World, process: str) -> None:
        self._disk, self._world, self._process = disk, world, process

    def write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        content = b"".join(chunks)
        try:
            self._world.effect(lambda: f"writes {path.name}", lambda: self._disk.write(path, content), self._process)
        except (Died, Killed):
            rng = self._world.scheduler.rng
            if rng.random() < _TORN:
                self._disk.write(path, content[: rng.randrange(len(content))])
            raise

    def sync(self, path: Path) -> None:
        self._world.effect(lambda: f"syncs {path.name}", lambda: self._disk.sync(path), self._process)

    def rename(self, path: Path, target: Path) -> None:
        self._world.effect(lambda: f"names {target.name}", lambda: self._disk.rename(path, target), self._process)

    def sync_folder(self, folder: Path) -> None:
        self._world.effect(lambda: f"syncs {folder.name}/", lambda: self._disk.sync_folder(folder), self._process)

    def remove(self, path: Path) -> None:
        self._world.effect(lambda: f"removes {path.name}", lambda: self._disk.remove(path), self._process)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None

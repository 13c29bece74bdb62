"""The store of versions in a run directory: the models that entered the run, each in a folder named by its digest.

A version is in the store, durably, before the event that names it. So no replay of an epoch needs the registry. The
version stays as long as an epoch since the base names it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection
from pathlib import Path

from millstream.errors import AlteredLog, MillstreamError
from millstream.log.journal.durability import make_folder, sync_folder
from millstream.state.files import link_durably
from millstream.state.model_version import ModelVersion

__all__ = ["VersionStore"]


class VersionStore:
    """The versions in the folder `models` of a run directory.

    Any thread may put a version. The last version that was put stays in memory until it is loaded, so that the epoch
    with which it enters does not wait for the disk.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._changing = threading.Lock()
        self._added: set[str] = set()
        """The versions that were put or brought here and that no epoch may name yet: they stay."""
        self._last: tuple[str, ModelVersion] | None = None

    def put(self, version: ModelVersion) -> str:
        """Write a version durably, unless the store has it; return the digest with which an event names it."""
        digest = version.entered
        with self._changing:
            self._added.add(digest)
            self._last = digest, version
            if not self._has(digest):
                version.save(self.folder / digest)
                sync_folder(self.folder)
        return digest

    def load(self, digest: str) -> ModelVersion:
        """Read a version; an error with its path if it is gone, or was altered."""
        with self._changing:
            last, self._last = self._last, None
        if last is not None and last[0] == digest:
            return last[1]
        folder = self.folder / digest
        advice = "put the folder back from a copy, or start over with --fresh"
        try:
            version = ModelVersion.load(folder)
        except MillstreamError as error:
            message = f"an epoch needs the version of a model in {folder}: {error}; {advice}"
            raise AlteredLog(message) from None
        if version.entered != digest:
            message = f"{folder} was altered: it is the version {version.entered}; {advice}"
            raise AlteredLog(message)
        return version

    def bring(self, digest: str, other: VersionStore) -> None:
        """Bring a version from the store of another run, durably. No version changes, so both may share its files."""
        with self._changing:
            self._added.add(digest)
            if self._has(digest) or other.folder == self.folder:
                return
            if not other._has(digest):
                message = f"an epoch needs the version of a model in {other.folder / digest}, which is gone"
                raise AlteredLog(message)
            folder = self.folder / digest
            make_folder(folder)
            for name in ModelVersion.FILES:
                link_durably(other.folder / digest / name, folder / name)
            sync_folder(self.folder)

    def clean(self, named: Collection[str]) -> None:
        """Remove the versions that no epoch names, except those that were put or brought here in this start."""
        if not self.folder.is_dir():
            return
        with self._changing:
            for folder in self.folder.iterdir():
                if folder.name not in named and folder.name not in self._added:
                    shutil.rmtree(folder)

    def _has(self, digest: str) -> bool:
        return (self.folder / digest / ModelVersion.FILES[-1]).is_file()

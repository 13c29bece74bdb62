"""The folder of a history: its plan and cuts, the files that tasks write, and a note for each task that is done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from millstream.errors import DISK_FULL, AlteredLog, Contradiction, MillstreamError, Unavailable, UnknownFormat
from millstream.history.plan import Plan, ReadPartition
from millstream.log.journal.durability import make_folder, write_whole
from millstream.log.journal.lock import LOCK, FolderLock
from millstream.runs.config_difference import difference

__all__ = ["Complete", "Facts", "HistoryFolder", "Note"]

_FORMAT = 1
_LONGEST = 80
_PLAN = "plan.json"


@dataclass(frozen=True)
class Note:
    """The note of a task that is done: what it read and wrote, and what it cost. Its files count once it is there.

    `records` were read and `rejects` of these could not be used; `rows` were written. `digests` has the digest of the
    records that each step made, or of the log's records if the task ran no step. `latest` has the greatest time in each
    epoch. `process` is the id of the process that ran the task.
    """

    task: str
    records: int
    rejects: int
    rows: int
    digests: Mapping[str, str]
    files: tuple[str, ...]
    cpu: float
    seconds: float
    process: int
    latest: Mapping[str, int | None]

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> Note:
        content = json.loads(text)
        return Note(**{**content, "files": tuple(content["files"])})


@dataclass(frozen=True)
class Complete:
    """A complete history: its folder, its facts, and true for `was_there` if this call found it complete."""

    path: Path
    result: Mapping[str, Any]
    was_there: bool


class HistoryFolder:
    """The files of one history. The facts say of which config, and, once all tasks are done, with which result."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epochs = path / "epochs"
        self.features = path / "features"
        self.legs = path / "legs"
        self.notes = path / "done"
        self.learned = path / "learned"
        self.costs = path / "costs"
        self.spark_log = path / "spark.log"
        self._plan = path / _PLAN

    def cache(self, source: str) -> Path:
        folder = self.path / "cache" / source
        make_folder(folder)
        return folder

    def make(self) -> None:
        """Make the folders for the files of tasks."""
        make_folder(self.features)
        make_folder(self.notes)

    # ------------------------------------------------------------ plan

    @property
    def has_plan(self) -> bool:
        return self._plan.exists()

    def plan(self) -> Plan:
        """The plan, which the first task makes."""
        try:
            return Plan.from_text(self._plan.read_text())
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            raise AlteredLog(f"{self._plan} is gone or was altered ({error}); choose another --out") from None

    def write_plan(self, plan: Plan) -> None:
        write_whole(self._plan, plan.text())

    # ------------------------------------------------------------ tasks

    def partition(self, rank: int, partition: ReadPartition) -> Path:
        """The folder of the files with the features of a partition, made if it is not there."""
        name = quote(f"{partition.source}-{partition.name}", safe="")[:_LONGEST]
        folder = self.features / f"{rank:05d}-{name}"
        make_folder(folder)
        return folder

    def finish(self, note: Note) -> None:
        """Write the note of a task durably, after its files."""
        write_whole(self.notes / f"{note.task}.json", note.text())

    def is_done(self, task: str) -> bool:
        return (self.notes / f"{task}.json").exists()

    def note(self, task: str) -> Note:
        """The note of a task that is done."""
        return Note.from_text((self.notes / f"{task}.json").read_text())

    def done(self, known: dict[str, Note]) -> Mapping[str, Note]:
        """The notes by task; `known` keeps those that were read before."""
        for file in self.notes.glob("*.json"):
            if file.stem not in known:
                known[file.stem] = Note.from_text(file.read_text())
        return known

    def remove_partial(self) -> None:
        """Remove files of tasks that were killed; the caller holds the lock of the folder."""
        for partial in self.path.glob("*.tmp"):
            partial.unlink(missing_ok=True)
        named = {self.path / file for note in self.done({}).values() for file in note.files}
        for folder in (self.features, self.legs, self.notes):
            for file in folder.rglob("*"):
                if file.is_file() and file not in named and not (folder == self.notes and file.suffix == ".json"):
                    file.unlink(missing_ok=True)

    def remove_legs(self) -> None:
        """Remove the records between legs, once all tasks are done."""
        shutil.rmtree(self.legs, ignore_errors=True)

    def remove_cuts(self) -> None:
        """Remove the cuts of a task that was killed before it wrote the plan."""
        shutil.rmtree(self.epochs, ignore_errors=True)


class Facts:
    """The file that makes a folder one of this kind: what it was made from, and the result once it is complete."""

    def __init__(self, path: Path, kind: str) -> None:
        self._folder, self._kind = path, kind
        self.file = path / f"{kind}.json"

    def lock(self) -> FolderLock:
        """Lock the folder, which is made if it is not there; a folder with files of others is refused."""
        try:
            make_folder(self._folder)
            own = (LOCK, f"{self.file.name}.")  # the second one is of a killed `write_whole`
            strangers = sorted(each.name for each in self._folder.iterdir() if not each.name.startswith(own))
            if strangers and not self.file.exists():
                message = f"{self._folder} holds {strangers[0]}, which is not of a {self._kind}; choose another --out"
                raise Contradiction(message)
            return FolderLock(self._folder)
        except OSError as error:
            message = f"cannot write the folder {self._folder}: {error.strerror}; choose another --out"
            raise (Unavailable if error.errno in DISK_FULL else MillstreamError)(message) from error

    def claim(self, made_from: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Make the folder that of these facts; the result if it is complete.

        Other facts than those that it has are refused, unless the folder has no cuts of any kind of work yet.
        """
        found = self._read()
        for partial in self._folder.glob("*.tmp"):  # of a call that was killed
            partial.unlink(missing_ok=True)
        was, now = found and found["made_from"], json.loads(json.dumps(made_from))
        if found is None or (was != now and not self._has_cuts()):
            write_whole(self.file, json.dumps({"format": _FORMAT, "made_from": made_from, "result": None}, indent=1))
            return None
        if was != now:
            message = (
                f"{self._folder} is a {self._kind} of something else: {difference(was, now)}; choose another --out"
            )
            raise Contradiction(message)
        result: Mapping[str, Any] | None = found["result"]
        return result

    def complete(self, result: Mapping[str, Any]) -> None:
        """Store the result: the folder is complete."""
        write_whole(self.file, json.dumps({**(self._read() or {}), "result": result}, indent=1))

    def _has_cuts(self) -> bool:
        """True if a backfill, a training or a search has made its plan in the folder."""
        return any(file for place in ("", "work/", "work/*/") for file in self._folder.glob(f"{place}{_PLAN}"))

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.file.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise Contradiction(f"{self.file} was altered: {error}; choose another --out") from None
        if found.get("format") != _FORMAT:
            raise UnknownFormat(f"{self.file} has format {found.get('format')!r}, not {_FORMAT}; choose another --out")
        return found

"""The run directory: the files of one run of a pipeline, locked while a process uses it.

run.json       the parts of the config that may not change between starts; makes the folder a run directory
config.yaml    the config with its defaults, without values from the environment
epochs/        the epoch log
checkpoints/   the manifests of checkpoints
layers/        the states of the steps
models/        the versions of models that entered the run
savepoints/    names of checkpoints that are kept
outputs/       the outputs without a sink of their own
outputs.json   the outputs of the steps, with their columns
code.json      digests of the modules with the user's functions and classes
cache/         indexes of sources (safe to delete)
spark/         Spark's log, and Spark's own checkpoint, which every start deletes
metrics.jsonl  accuracy and speed by windows of at least 1,000 records
live.json      the current speed, latency and restarts of a running run
summary.json   the summary of the last clean end
error.txt      the error of the last start, if it failed
base.json      the origin of the base, if the run began from another run
shadow.json    the last change of each step's model, and the progress of the next version of its shadow
forking        while a fork writes the directory
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from millstream.errors import (
    DISK_FULL,
    AlteredLog,
    Contradiction,
    InUse,
    MillstreamError,
    Unavailable,
    UnknownFormat,
)
from millstream.log.journal.durability import make_folder, sync_folder, write_whole
from millstream.log.journal.lock import try_lock
from millstream.runs.config_difference import difference

__all__ = ["RunDirectory"]

_FORMAT = 4
_ENDS_ON_SIGNAL = "SIGTERM ends the run after its epoch\n"
"""The second line of a lock file: without it, SIGTERM may kill the process, or mean something else to it."""


class RunDirectory:
    """The folder of one run. A run calls `lock`; commands that only read use `find`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: TextIO | None = None

    epochs = property(lambda self: self.path / "epochs")
    layers = property(lambda self: self.path / "layers")
    models = property(lambda self: self.path / "models")
    shadow = property(lambda self: self.path / "shadow.json")
    config = property(lambda self: self.path / "config.yaml")
    metrics = property(lambda self: self.path / "metrics.jsonl")
    live = property(lambda self: self.path / "live.json")
    summary = property(lambda self: self.path / "summary.json")
    output_file = property(lambda self: self.path / "outputs.json")
    code = property(lambda self: self.path / "code.json")
    sources = property(lambda self: self.path / "sources.json")
    mlflow = property(lambda self: self.path / "mlflow.json")
    error = property(lambda self: self.path / "error.txt")
    origin = property(lambda self: self.path / "base.json")
    forking = property(lambda self: self.path / "forking")

    def cache(self, source: str) -> Path:
        folder: Path = self.path / "cache" / source
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @staticmethod
    def find(path: Path) -> RunDirectory:
        """An existing run directory of this version's format, for commands that only read."""
        if not (path / "run.json").is_file():
            folders = (path, path.parent, Path("runs"))
            lists = (sorted(found.parent for found in folder.glob("*/run.json")) for folder in folders)
            near = ", ".join(map(str, next(filter(None, lists), [])[:5]))
            hint = f"there are {near}" if near else "a run directory has a file run.json, which its first start writes"
            message = f"{path} is not a run directory; {hint}"
            raise MillstreamError(message)
        found = RunDirectory(path)
        found._read()
        return found

    def lock(self, *, ends_on_signal: bool = False) -> None:
        """Lock the directory for this process until `release`, or until the process ends.

        With `ends_on_signal`, the lock file tells other processes that SIGTERM ends this run cleanly.
        A folder with other files than those of a run is refused, and stays as it is.
        """
        try:
            make_folder(self.path)
            self._refuse_strangers()
            self._lock = (self.path / "lock").open("a+")
        except OSError as error:
            message = f"cannot write the run directory {self.path}: {error.strerror}; give another folder with --run"
            raise (Unavailable if error.errno in DISK_FULL else MillstreamError)(message) from error
        if not try_lock(self._lock.fileno()):
            self._lock.close()
            who = self.holder or "?"
            message = f"{self.path} is in use by process {who}; wait for it, stop it, or give another --run"
            raise InUse(message)
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n{_ENDS_ON_SIGNAL if ends_on_signal else ''}")
        self._lock.flush()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def gone_as_error(self) -> Iterator[None]:
        """Raise an error that says so if the run directory disappears while a run uses it."""
        try:
            yield
        except Exception as error:
            if self.initialized:
                raise
            message = f"the run directory {self.path} is gone: it was deleted or moved while the run used it"
            raise MillstreamError(message) from error

    @property
    def in_use(self) -> bool:
        """True if a process holds the lock now."""
        with suppress(OSError), (self.path / "lock").open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @property
    def holder(self) -> int | None:
        """The id of the process that locked the directory last."""
        process = self._lock_lines()[0].strip()
        return int(process) if process.isdecimal() else None

    @property
    def ends_on_signal(self) -> bool:
        """True if the process that locked the directory last ends the run cleanly on SIGTERM."""
        return _ENDS_ON_SIGNAL in self._lock_lines()[1:]

    def _lock_lines(self) -> list[str]:
        with suppress(OSError):
            return (self.path / "lock").read_text().splitlines(keepends=True) or [""]
        return [""]

    @property
    def initialized(self) -> bool:
        """True if the folder has a run.json, so that it is a run directory."""
        return (self.path / "run.json").is_file()

    def make(self, fixed: Mapping[str, Any], config_folder: Path) -> None:
        """Make a run directory of this folder; files that an interrupted `archive` left are archived first."""
        self._refuse_strangers()
        if self.forking.exists():
            message = (
                f"{self.path} is incomplete, because a fork into it was interrupted: repeat the `millstream fork` "
                "command, or delete the folder"
            )
            raise Contradiction(message)
        self.archive()
        self.write(fixed, config_folder)

    def begin_fork(self) -> None:
        """Prepare this locked folder for a fork. Until `end_fork`, every start refuses the folder."""
        if self.initialized:
            message = f"{self.path} holds a run; a fork begins in a new run directory, so give another --run"
            raise Contradiction(message)
        if not self.forking.exists():
            self.archive()
            write_whole(self.forking, "")

    def clear_fork(self) -> None:
        """Delete what an interrupted attempt of this fork has written."""
        for folder in ("epochs", "checkpoints", "layers", "models"):
            shutil.rmtree(self.path / folder, ignore_errors=True)

    def refuse_fork(self) -> None:
        """Leave the folder for any run, because the fork was refused, and not interrupted."""
        if not self.initialized:
            self.clear_fork()
            self.forking.unlink(missing_ok=True)

    def end_fork(self, fixed: Mapping[str, Any], config_folder: Path) -> None:
        """Make a run directory of the folder of a fork, which is complete."""
        self.write(fixed, config_folder)
        self.forking.unlink()

    def _refuse_strangers(self) -> None:
        """Refuse a folder that is no run directory and holds other files: no start may move or change them."""
        if self._was_written_by_a_run:
            return
        strangers = sorted(p.name for p in self.path.iterdir() if p.name not in _NAMES and not _is_partial(p))
        if strangers:
            message = f"{self.path} holds {strangers[0]}, which is not a file of a run; give another --run"
            raise Contradiction(message)

    @property
    def _was_written_by_a_run(self) -> bool:
        """True if run.json is one of a run, of any format: another program may have a file of this name."""
        try:
            return "format" in (written := json.loads((self.path / "run.json").read_text())) and "fixed" in written
        except (OSError, ValueError, TypeError):
            return False

    def write(self, fixed: Mapping[str, Any], config_folder: Path) -> None:
        """Write run.json with the parts of the config that may not change."""
        relative = os.path.relpath(config_folder, self.path)
        write_whole(self.path / "run.json", json.dumps({"format": _FORMAT, "base": relative, "fixed": fixed}, indent=1))

    @property
    def config_folder(self) -> Path:
        """The folder from which relative paths of the config start."""
        return Path(os.path.normpath(self.path.absolute() / self._read()["base"]))

    @property
    def fixed(self) -> dict[str, Any]:
        """The parts of the config that may not change between starts."""
        fixed: dict[str, Any] = self._read()["fixed"]
        return fixed

    def _read(self) -> dict[str, Any]:
        """The content of run.json."""
        try:
            written: dict[str, Any] = json.loads((self.path / "run.json").read_text())
            if written["format"] != _FORMAT:
                message = (
                    f"{self.path} is a run directory of format {written['format']}, and this version of Millstream "
                    f"reads format {_FORMAT}: use the version that made it, or start over with --fresh"
                )
                raise UnknownFormat(message)
        except (ValueError, KeyError, TypeError) as error:
            message = f"{self.path / 'run.json'} was altered: {error}; start over with --fresh"
            raise AlteredLog(message) from error
        return written

    def check(self, fixed: Mapping[str, Any], config_folder: Path) -> None:
        """Refuse a config with another value in the parts that may not change; store its present folder."""
        before = self.fixed
        for key in [*before, *(key for key in fixed if key not in before)]:
            was, now = before.get(key), fixed.get(key)
            if was != now:
                message = (
                    f"{self.path}: the {key} changed since the first start: {difference(was, now)}; "
                    "use --fresh to start over, or another --run"
                )
                raise Contradiction(message)
        self.write(fixed, config_folder)

    def check_epoch_log(self) -> None:
        """Refuse a run that has read its sources if its epoch log is gone."""
        if self.epoch_log_lost:
            message = (
                f"{self.epochs}, the folder with the epoch log of this run, is gone or has lost its segments; "
                "put it back, or start over with --fresh"
            )
            raise AlteredLog(message)

    @property
    def epoch_log_lost(self) -> bool:
        """True if there is no epoch log any more: sources.json is written after the first segment."""
        return self.sources.exists() and not any(self.epochs.glob("*.journal"))

    def archive(self) -> Path | None:
        """Move the content to a new folder and return it; None if there is no content.

        If this is interrupted, the next call moves the rest to the same folder.
        """
        for partial in filter(_is_partial, list(self.path.iterdir())):
            partial.unlink()
        content = [p for p in self.path.iterdir() if p.name != "lock"]
        if not any(p.is_file() or any(p.iterdir()) for p in content):
            return None
        target = self._archive_for(content)
        make_folder(target)
        for path in sorted(content, key=lambda p: p.name != "run.json"):  # the folder stops being a run directory first
            path.rename(target / path.name)
            if path.name == "run.json":
                sync_folder(target)
                sync_folder(self.path)
        sync_folder(target)
        sync_folder(self.path)
        return target

    def _archive_for(self, content: Sequence[Path]) -> Path:
        """The folder of an interrupted `archive`, or else the first folder name that is free."""
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.{number}")).exists():
            number += 1
        last = self.path.with_name(f"{self.path.name}.{number - 1}")
        if self.initialized or not (last / "run.json").is_file() or any((last / p.name).exists() for p in content):
            return target
        return last

    def with_archives(self) -> list[Path]:
        """This folder and the folders of `archive`, which have no lock file, unlike other run directories."""
        name = re.compile(re.escape(self.path.name) + r"\.\d+")
        similar = [self.path.with_name(p.name) for p in self.path.absolute().parent.iterdir() if name.fullmatch(p.name)]
        return [self.path, *(folder for folder in similar if not (folder / "lock").exists())]

    def crashes(self) -> list[str]:
        """The `--crash` points that have fired in this run."""
        path = self.path / "crashed"
        return path.read_text().split() if path.exists() else []

    def record_crash(self, point: str) -> None:
        """Record durably that a `--crash` point fires."""
        write_whole(self.path / "crashed", "\n".join([*self.crashes(), point]))


_NAMES = {
    "base.json",
    "cache",
    "code.json",
    "config.yaml",
    "crashed",
    "epochs",
    "layers",
    "error.txt",
    "forking",
    "live.json",
    "lock",
    "metrics.jsonl",
    "mlflow.json",
    "models",
    "outputs",
    "outputs.json",
    "run.json",
    "savepoints",
    "shadow.json",
    "checkpoints",
    "sources.json",
    "spark",
    "summary.json",
}


def _is_partial(path: Path) -> bool:
    """True for a partial file of an interrupted `write_whole`."""
    match = re.fullmatch(r"(.+)\.\d+\.tmp", path.name)
    return match is not None and match[1] in _NAMES

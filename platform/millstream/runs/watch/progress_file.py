"""live.json: the present speed, latency and restarts of a run, for other processes.

A run writes the file at most once a second, if a value has changed, and deletes it at its end. The file of a killed run
remains; readers ignore it, because its process does not hold the run directory.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

from millstream.runs.directory import RunDirectory
from millstream.runs.watch.observer import Observer
from millstream.runs.watch.run_stats import RunStats

__all__ = ["ProgressFile", "read_run_stats"]

_EVERY_SECONDS = 1.0


def read_run_stats(directory: RunDirectory) -> RunStats | None:
    """The values written by the process that holds the directory; None if it has written none yet."""
    try:
        written = json.loads(directory.live.read_text())
    except FileNotFoundError:
        return None
    return RunStats(**written["stats"]) if written["process"] == directory.holder else None


class ProgressFile(Observer):
    """Writes live.json in a background thread; calls `warn` once if the file cannot be written."""

    def __init__(
        self, directory: RunDirectory, run_stats: Callable[[], RunStats], *, warn: Callable[[str], None]
    ) -> None:
        self._directory, self._run_stats, self._warn = directory, run_stats, warn
        self._written: RunStats | None = None
        self._warned = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="millstream-live", daemon=True)
        self._update()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        with suppress(OSError):  # readers ignore a file that remains
            self._directory.live.unlink()

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            self._update()

    def _update(self) -> None:
        run_stats = self._run_stats()
        if run_stats == self._written:
            return
        try:
            self._write(run_stats)
            self._written = run_stats
        except OSError as error:
            if not self._warned:
                lost = "`millstream status` cannot show the speed and latency of this run"
                self._warn(f"cannot write {self._directory.live}: {error.strerror}; {lost}")
            self._warned = True

    def _write(self, run_stats: RunStats) -> None:
        """Replace the file atomically for readers; it need not survive a loss of power."""
        path = self._directory.live
        partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            partial.write_text(json.dumps({"process": os.getpid(), "stats": asdict(run_stats)}))
            partial.rename(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

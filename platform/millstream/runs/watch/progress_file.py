"""live.json: how a run is doing, for who looks from another process. Written every second that changes something.

It is there while a run goes on, and after a kill; it counts only beside the process that wrote it.
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

__all__ = ["Live", "read_run_stats"]

_EVERY_SECONDS = 1.0


def read_run_stats(directory: RunDirectory) -> RunStats | None:
    """What the process that has the directory now tells of itself; None if it has not told anything yet."""
    try:
        written = json.loads(directory.live.read_text())
    except FileNotFoundError:
        return None
    return RunStats(**written["stats"]) if written["process"] == directory.holder else None


class Live(Observer):
    """Writes live.json, from a thread of its own; `warn` is told, once, if it cannot."""

    def __init__(
        self, directory: RunDirectory, run_stats: Callable[[], RunStats], *, warn: Callable[[str], None]
    ) -> None:
        self._directory, self._run_stats, self._warn = directory, run_stats, warn
        self._written: RunStats | None = None
        self._warned = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="millstream-live", daemon=True)
        self._tell()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        with suppress(OSError):  # what stays is not believed
            self._directory.live.unlink()

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            self._tell()

    def _tell(self) -> None:
        run_stats = self._run_stats()
        if run_stats == self._written:
            return
        try:
            self._write(run_stats)
            self._written = run_stats
        except OSError as error:
            if not self._warned:
                self._warn(f"cannot write {self._directory.live}: {error.strerror}; status tells less of this run")
            self._warned = True

    def _write(self, run_stats: RunStats) -> None:
        """Whole or not at all for readers; it need not outlive a loss of power."""
        path = self._directory.live
        partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            partial.write_text(json.dumps({"process": os.getpid(), "stats": asdict(run_stats)}))
            partial.rename(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

"""live.json: how a run is doing, for who looks from another process. Written every second that changes something.

It is there while a run goes on, and after a kill; it counts only beside the process that wrote it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict

from millstream.runs.directory import RunDirectory
from millstream.runs.observer import Observer
from millstream.runs.pulse import Vitals

__all__ = ["Live", "read_vitals"]

_EVERY_SECONDS = 1.0


def read_vitals(directory: RunDirectory) -> Vitals | None:
    """What the process that has the directory now tells of itself; None if it has not told anything yet."""
    try:
        written = json.loads(directory.live.read_text())
    except FileNotFoundError:
        return None
    return Vitals(**written["vitals"]) if written["process"] == directory.holder else None


class Live(Observer):
    """Writes live.json from a thread of its own; `warn` is told, once, if it cannot."""

    def __init__(self, directory: RunDirectory, vitals: Callable[[], Vitals], *, warn: Callable[[str], None]) -> None:
        self._directory, self._vitals, self._warn = directory, vitals, warn
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="millstream-live", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._directory.live.unlink(missing_ok=True)

    def _run(self) -> None:
        written: Vitals | None = None
        try:
            while True:
                vitals = self._vitals()
                if vitals != written:
                    self._write(vitals)
                    written = vitals
                if self._closing.wait(_EVERY_SECONDS):
                    return
        except OSError as error:
            self._warn(f"cannot write {self._directory.live}: {error.strerror}; `status` tells less of this run")

    def _write(self, vitals: Vitals) -> None:
        """Whole or not at all for readers; it need not outlive a loss of power."""
        path = self._directory.live
        partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            partial.write_text(json.dumps({"process": os.getpid(), "vitals": asdict(vitals)}))
            partial.rename(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

"""The catch-up of a version, as the run sees it: a process that learns in the background until the run asks for it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from millstream.runs.shadow.learner import Entry, LearnerSpec
from millstream.runs.shadow.messages import Finish, Progress, Refused

__all__ = ["CatchUp"]

_MODULE = "millstream.runs.shadow.process"
_MOST_SECONDS = 30.0
"""The time after which the run does not wait any more for the last epochs of a version."""


class CatchUp:
    """The process of one version. One thread at a time may call its methods."""

    def __init__(self, spec: LearnerSpec) -> None:
        self.progress: Progress | None = None
        """The last report; None before the first one."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        ours, theirs = multiprocessing.Pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                start_new_session=True,  # Ctrl-C in a terminal goes to the run alone
            )
        finally:
            theirs.close()
        self._connection: Connection = ours
        self._connection.send(spec)

    @property
    def is_close(self) -> bool:
        """True if the version would need a few milliseconds to be at the position of the run."""
        return self.progress is not None and self.progress.close

    def poll(self) -> Refused | None:
        """Read the reports that have come; the reason if the version cannot enter."""
        try:
            while self._connection.poll():
                report = self._connection.recv()
                if isinstance(report, Refused):
                    return report
                self.progress = report
        except (EOFError, OSError):
            return self._gone()
        return None

    def finish(self, epoch: int, models: Path) -> Entry | Refused:
        """Learn up to this epoch, the last one cut, and store the state below `models`; the run waits meanwhile."""
        try:
            self._connection.send(Finish(epoch, models))
            while self._connection.poll(_MOST_SECONDS):
                report = self._connection.recv()
                if isinstance(report, Entry | Refused):
                    return report
        except (EOFError, OSError):
            return self._gone()
        return Refused(f"the last epochs took longer than {_MOST_SECONDS:.0f} s", again=True)

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def _gone(self) -> Refused:
        """The end of a process that has not reported it."""
        self._process.wait()
        self._errors.seek(0)
        *_, last = ["", *self._errors.read().decode(errors="replace").strip().splitlines()]
        why = last.strip() or f"exit code {self._process.returncode}"
        return Refused(f"the process in which the version catches up has ended: {why}", again=True)

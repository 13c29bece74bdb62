"""`millstream run` as users start it: a process of its own, asked to end as Ctrl-C asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

__all__ = ["MillstreamProcess"]

_Found = TypeVar("_Found")
_ENDING = 60.0


class MillstreamProcess:
    """A run that goes on beside us until the `with` block ends."""

    def __init__(self, config: Path, run: Path, *arguments: str, plugins: Path | None = None) -> None:
        program = Path(sys.executable).with_name("millstream")
        environment = {**os.environ, "PYTHONPATH": str(plugins)} if plugins is not None else None
        self._log = run.with_name(run.name + ".stderr.txt")
        self._killed = False
        self.began = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, "run", config, "--run", run, "--json", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=environment,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL; it is gone on return."""
        self._process.kill()
        self._process.wait()
        self._killed = True

    def until(self, look: Callable[[], _Found | None], *, every: float, within: float) -> _Found:
        """Look again and again until something is there; fails if the run ends meanwhile."""
        deadline = time.monotonic() + within
        while (found := look()) is None:
            code = self._process.poll()
            if code is not None:
                if (found := look()) is not None:
                    return found
                raise RuntimeError(f"millstream run ended with exit code {code}:\n{self._log.read_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing came of millstream run within {within:g} s")
            time.sleep(every)
        return found

    def __enter__(self) -> MillstreamProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._killed:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            code = self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        if code and error is None:
            raise RuntimeError(f"millstream run ended with exit code {code}:\n{self._log.read_text()[-2000:]}")

"""`millstream run` in a process of its own, as users start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

__all__ = ["MillstreamProcess"]

_Found = TypeVar("_Found")
_ENDING = 60.0


class MillstreamProcess:
    """A run that continues until the end of the `with` block, which stops it as Ctrl-C does."""

    def __init__(self, config: Path, run: Path, *arguments: str, plugins: Path | None = None) -> None:
        program = Path(sys.executable).with_name("millstream")
        path = filter(None, [str(plugins or ""), os.environ.get("PYTHONPATH")])
        self._log = run.with_name(run.name + ".stderr.txt")
        self._killed = False
        self.began = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, "run", config, "--run", run, "--json", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._process.kill()
        self._process.wait()
        self._killed = True

    def until(self, look: Callable[[], _Found | None], *, every: float, within: float) -> _Found:
        """Call `look` until it returns something; fail if the run ends before."""
        deadline = time.monotonic() + within
        while (found := look()) is None:
            code = self._process.poll()
            if code is not None:
                if (found := look()) is not None:
                    return found
                raise RuntimeError(f"millstream run ended with exit code {code}:\n{self._log.read_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"millstream run has not done it within {within:g} s")
            time.sleep(every)
        return found

    def __enter__(self) -> Self:
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

"""A process that appends epochs to a sink until it is killed, again and again, for the checks of a sink.

The process has imported the sink's module once. For each life it forks a child, which opens and fences the sink and
appends epochs. The child ends in the middle of an append without any clean-up: either at a line of the sink's own code,
where it sends SIGKILL to itself, or at a random moment, where the kernel ends it because of a timer.
"""

from __future__ import annotations

import importlib
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

from millstream.log.contracts import OpenContext, Sink, SinkConfig
from millstream.plugin.checks.sink_rows import IDENTITY, OUTPUT, SCHEMA, progress_of, rows_of

__all__ = ["AppendProcess", "main"]

_PROGRAM = "from millstream.plugin.checks.append_process import main; main()"
_KILLED = {-signal.SIGKILL, -signal.SIGALRM}
_MOST_EPOCHS = 20
_SECONDS = 300
"""A life takes much less; the process is killed after this time."""


class AppendProcess:
    """The process, as the checks use it; a context manager."""

    def __init__(self, config: SinkConfig, context: OpenContext) -> None:
        self._config = config
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `__exit__`
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # its children are killed with it
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._send(pickle.dumps((config, str(context.folder), str(context.cache), context.pipeline)))

    def __enter__(self) -> AppendProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._kill()
        self._process.communicate()
        self._errors.close()

    def live(self, first: int, life: int, lives: int) -> list[int]:
        """Let a child append the epochs from `first` on until it dies; the epochs whose `append` returned."""
        limit = threading.Timer(_SECONDS, self._kill)
        limit.start()
        try:
            return self._live(first, life, lives)
        finally:
            limit.cancel()

    def _live(self, first: int, life: int, lives: int) -> list[int]:
        self._send(f"{first} {life} {lives}\n".encode())
        appended: list[int] = []
        for line in self._lines():
            word, number = line.split()
            if word == b"end":
                if int(number) not in _KILLED:
                    self._fail(f"a process that appended to it ended with exit code {int(number)}")
                return appended
            appended.append(int(number))
        self._fail(f"another process cannot append to it, or not within {_SECONDS} seconds")
        return appended

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, content: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101
        try:
            stdin.write(content)
            stdin.flush()
        except BrokenPipeError:
            self._fail("another process cannot append to it")

    def _lines(self) -> IO[bytes]:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101
        return stdout

    def _fail(self, what: str) -> None:
        self._kill()
        self._process.wait()
        self._errors.seek(0)
        message = f"{self._config!r}: {what}:\n{self._errors.read().decode(errors='replace')}"
        raise AssertionError(message)


def main() -> None:
    """Run in the other process: read the sink and then lives from the standard input."""
    config, folder, cache, pipeline = pickle.load(sys.stdin.buffer)  # noqa: S301 - its parent wrote it
    context = OpenContext(Path(folder), Path(cache), pipeline)
    for line in sys.stdin.buffer:
        first, life, lives = map(int, line.split())
        child = os.fork()
        if not child:
            try:
                _live(config, context, first, life, lives)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        _write(f"end {os.waitstatus_to_exitcode(status)}\n")


def _live(config: SinkConfig, context: OpenContext, first: int, life: int, lives: int) -> None:
    """Append epochs, of which the first one succeeds; die in a later one. Even lives die at a line, odd ones by time.

    The lines at which the lives die are spread over the lines of an append.
    """
    dice = random.Random(life)
    sink = config.open(context, OUTPUT, SCHEMA, identity=IDENTITY, guarded=True)
    sink.fence(0)
    lines = _LineCounter(config, sink)
    began = time.monotonic()
    lines.count(lambda: _append(sink, first))
    seconds = time.monotonic() - began
    share = (life + dice.random() * 2) / lives
    if life % 2:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, seconds * dice.random()))
    else:
        lines.kill_at(1 + int(share * lines.counted))
    for epoch in range(first + 1, first + 1 + _MOST_EPOCHS):
        lines.count(lambda epoch=epoch: _append(sink, epoch))  # type: ignore[misc]
    os.kill(os.getpid(), signal.SIGKILL)


def _append(sink: Sink, epoch: int) -> None:
    sink.append(rows_of(epoch), progress_of(epoch))
    _write(f"appended {epoch}\n")


def _write(line: str) -> None:
    os.write(1, line.encode())


class _LineCounter:
    """Counts the executed lines of the modules of a sink, and kills the process at one of them."""

    def __init__(self, config: SinkConfig, sink: Sink) -> None:
        roots = {type(part).__module__.partition(".")[0] for part in (config, sink)}
        modules = [importlib.import_module(root) for root in roots]
        folders = [folder + os.sep for module in modules for folder in getattr(module, "__path__", ())]
        files = [getattr(module, "__file__", None) for module in modules if not hasattr(module, "__path__")]
        self._prefixes = (*folders, *(file for file in files if file is not None))
        self.counted = 0
        self._kill_at: int | None = None

    def kill_at(self, line: int) -> None:
        """Kill the process at this line, counted from now on."""
        self.counted, self._kill_at = 0, line

    def count(self, call: Callable[[], None]) -> None:
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._prefixes) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.counted += 1
            if self.counted == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line

"""Commands whose process is killed by SIGKILL after a call of a method, and a journal that gets records meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.conditions import HANG_SECONDS

from millstream.log.journal import Journal

__all__ = ["append", "flow", "killed_after", "line"]

_LABELS = ("sport", "film", "politics")

_KILLED = """
import importlib, os, signal, sys
module, owner, name = sys.argv[1].split(":")
found = getattr(importlib.import_module(module), owner)
real = getattr(found, name)
def killed(*arguments, **options):
    real(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(found, name, killed)
from millstream.cli import main
main(sys.argv[2:])
"""

_APPEND = """
import sys, time
from pathlib import Path
from support.killed_at import append
number = int(sys.argv[2])
print("begun", flush=True)
while True:
    append(Path(sys.argv[1]), number, 10)
    number += 10
    time.sleep(0.02)  # the rate of the stream
"""


def line(number: int) -> bytes:
    """A record; its text is that of no other record."""
    label = _LABELS[number % 3]
    return json.dumps({"text": f"{label} word{number % 17} about {number}", "label": label, "time": number}).encode()


def append(journal: Path, start: int, count: int) -> None:
    """Append records to a journal, in a segment of their own."""
    with Journal(journal) as opened:
        opened.append_many([line(number) for number in range(start, start + count)])


def killed_after(method: str, *arguments: str | Path) -> None:
    """Run `millstream` with these arguments until SIGKILL comes after a call of `method`: module:class:name."""
    command = [sys.executable, "-c", _KILLED, method, *map(str, arguments)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert ended.returncode == -9, ended.stderr


@contextmanager
def flow(journal: Path, start: int) -> Iterator[None]:
    """Let a process append about 500 records a second, from the record `start` on."""
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {tests!r})\n{_APPEND}", str(journal), str(start)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        yield
        assert process.poll() is None, "the stream ended early"
    finally:
        process.kill()
        process.communicate()

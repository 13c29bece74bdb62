"""Backfills, trainings and searches in a process of their own, which is killed at a point of their work."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.conditions import HANG_SECONDS

__all__ = ["kill_history"]

_TESTS = str(Path(__file__).parents[1])
_KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, {tests!r})
from support.histories import HereSession
from millstream.config.load import load_config
from {module} import {function}
left = [{number}]
def kill():
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
def before(owner, name, counts=lambda *args: True):
    original = getattr(owner, name)
    def wrapped(*args, **kwargs):
        if counts(*args):
            kill()
        return original(*args, **kwargs)
    setattr(owner, name, wrapped)
{point}
{function}(load_config({config!r}), pathlib.Path({out!r}), sessions=HereSession, block_records=30, **{options!r})
"""
"""A process that is killed the n-th time that it comes to a point."""


def kill_history(
    function: str, config: Path, out: Path, point: str, number: int, options: Mapping[str, Any] | None = None
) -> None:
    """Call a function, `module:name`, in a process that is killed the n-th time that it comes to a point."""
    module, _, name = function.partition(":")
    parts = {"tests": _TESTS, "module": module, "function": name, "number": number, "point": point}
    code = _KILLED.format(**parts, config=str(config), out=str(out), options=dict(options or {}))
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert process.returncode == -signal.SIGKILL, process.stderr

"""Contenders in processes of their own, on one core: each is told what to do as JSON, and answers with JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["answer", "ask", "ask_script"]

_LONGEST = 1200.0
_RUN = Path(__file__).with_name("run.py")


def ask(function: Callable[..., Any], *, one_core: bool = True, **arguments: Any) -> Any:
    """What a function of the benchmarks gives, called in a new process; arguments and answer are plain JSON."""
    name = f"{function.__module__}:{function.__qualname__}"
    return _answered([sys.executable, _RUN, "--call", name, json.dumps(arguments)], one_core)


def ask_script(python: Path, script: Path, *, one_core: bool = True, **arguments: Any) -> Any:
    """The same of a script that needs another environment: it gets the arguments, and prints the answer last."""
    return _answered([python, script, json.dumps(arguments)], one_core)


def answer(name: str, arguments: str) -> None:
    """What the new process does."""
    module, function = name.split(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(arguments))))


def _answered(program: Sequence[str | Path], one_core: bool) -> Any:
    pin = _pin if one_core and hasattr(os, "sched_setaffinity") else None
    ran = subprocess.run(program, capture_output=True, timeout=_LONGEST, check=False, preexec_fn=pin)
    if ran.returncode:
        tail = "\n".join(ran.stderr.decode(errors="replace").splitlines()[-15:])
        raise RuntimeError(f"{program[1]} ended with exit code {ran.returncode}:\n{tail}")
    return json.loads(ran.stdout.splitlines()[-1])


def _pin() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

"""Functions and scripts called in child processes: JSON arguments in, JSON answer out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.kit.rates import Rate

__all__ = ["answer", "ask", "child_rate", "script_rate"]

_LONGEST = 1200.0
_RUN = Path(__file__).parents[1] / "run.py"


def ask(function: Callable[..., Any], *, one_core: bool = True, **arguments: Any) -> Any:
    """The result of a function in a new process."""
    name = f"{function.__module__}:{function.__qualname__}"
    return _answered([sys.executable, _RUN, "--call", name, json.dumps(arguments)], one_core)


def child_rate(function: Callable[..., Rate], *, one_core: bool = True, **arguments: Any) -> Rate:
    """The rate that a function measures in a new process."""
    return Rate(**ask(function, one_core=one_core, **arguments))


def script_rate(python: Path, script: Path, *, one_core: bool = True, **arguments: Any) -> Rate:
    """The rate that a script prints in its last line; it runs in another environment."""
    return Rate(**_answered([python, script, json.dumps(arguments)], one_core))


def answer(name: str, arguments: str) -> None:
    """Call the function in this process and print its result."""
    module, function = name.split(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(arguments)), default=asdict))


def _answered(program: Sequence[str | Path], one_core: bool) -> Any:
    pin = _pin if one_core and hasattr(os, "sched_setaffinity") else None
    ran = subprocess.run(program, capture_output=True, timeout=_LONGEST, check=False, preexec_fn=pin)
    if ran.returncode:
        tail = "\n".join(ran.stderr.decode(errors="replace").splitlines()[-15:])
        raise RuntimeError(f"{program[1]} ended with exit code {ran.returncode}:\n{tail}")
    return json.loads(ran.stdout.splitlines()[-1])


def _pin() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

"""Python environments with pinned packages of other tools, made once and kept in `.bench/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.kit.measurement import Unmeasured

__all__ = ["environment"]

_ROOT = Path(__file__).parents[2]


def environment(name: str, say: Callable[[str], None]) -> Path:
    """The Python of the environment with the packages of `contenders/NAME.txt`."""
    pins, home = (_ROOT / "benchmarks" / "contenders" / f"{name}.txt").read_text(), _ROOT / ".bench" / name
    python, ready = home / "bin" / "python", home / "installed.txt"
    if ready.exists() and ready.read_text() == pins:
        return python
    say(f"installing {', '.join(pins.split())}")
    shutil.rmtree(home, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    for command in ([sys.executable, "-m", "venv", str(home)], [*install, *pins.split()]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            lines = (ran.stderr or ran.stdout).strip().splitlines()
            raise Unmeasured(f"{name} cannot be installed here: {lines[-1] if lines else 'pip gives no reason'}")
    ready.write_text(pins)
    return python

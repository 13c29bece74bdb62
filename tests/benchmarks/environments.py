"""Environments for peers, made once and kept in `.bench/`: pinned packages that the project does not need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Unmeasured

__all__ = ["environment"]

_KEPT = Path(__file__).parents[2] / ".bench"
_PINS = Path(__file__).with_name("peers")


def environment(name: str, say: Callable[[str], None]) -> Path:
    """The Python of the environment with the packages of `peers/NAME.txt`."""
    pins, home = _PINS / f"{name}.txt", _KEPT / name
    python, ready = home / "bin" / "python", home / "installed.txt"
    if ready.exists() and ready.read_text() == pins.read_text():
        return python
    say(f"installing {', '.join(pins.read_text().split())}")
    shutil.rmtree(home, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    commands: list[list[str | Path]] = [[sys.executable, "-m", "venv", home], [*install, "--requirement", pins]]
    for command in commands:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            told = (ran.stderr or ran.stdout).strip().splitlines()
            raise Unmeasured(f"{name} cannot be installed here: {told[-1] if told else 'pip says nothing'}")
    ready.write_text(pins.read_text())
    return python

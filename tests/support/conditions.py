"""Waiting for conditions that must become true."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

__all__ = ["HANG_SECONDS", "wait_until"]

HANG_SECONDS = 300
"""Seconds after which a test fails: far more than any condition needs on a busy machine, also the start of a broker."""


def wait_until(true: Callable[[], bool], what: str, process: subprocess.Popen[str] | None = None) -> None:
    """Return once a condition is true; fail with a description of it if it stays false, or if the process ends."""
    end = time.monotonic() + HANG_SECONDS
    while not true():
        if process is not None and process.poll() is not None:
            raise AssertionError(f"{what}: the process ended before: {process.communicate()}")
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {HANG_SECONDS} s")
        time.sleep(0.02)

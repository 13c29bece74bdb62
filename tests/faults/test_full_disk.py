"""A run for which there is no room left says so, and goes on once there is some: nothing is lost, nothing twice."""

from __future__ import annotations

import re
import resource
import subprocess
from typing import Any

import pytest
from faults.conftest import Commands
from faults.test_killed import same

MOST = 200_000
"""Bytes that a file may have: about a fifth of what the predictions need."""


def no_more_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_goes_on_when_there_is_room_again(commands: Commands, golden: dict[str, Any], workers: int) -> None:
    run, options = f"full-{workers}", ("--set", "engine.type=local", "--set", f"engine.workers={workers}")
    for _ in range(2):
        full = subprocess.run(
            commands.arguments(run, *options),
            preexec_fn=no_more_room,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert full.returncode == 1
        assert re.search(r"File too large; .*, and run the same command again", full.stderr)
    same(commands.finish(run, *options), golden)

"""A full disk ends a run with a clear error; with space again, the run continues: nothing is lost or repeated."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from typing import Any

import pytest
from support.commands import LOCAL, Commands, same
from support.conditions import HANG_SECONDS

MOST = 66_000
"""Bytes that a file may have: about a fifth of what the predictions need."""


def no_more_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_goes_on_when_there_is_room_again(commands: Commands, golden: dict[str, Any], workers: int) -> None:
    run, options = f"full-{workers}", ("--set", f"engine.workers={workers}")
    for _ in range(2):
        full = subprocess.run(
            [sys.executable, "-m", "millstream", *commands.arguments(run, *LOCAL, *options)],
            preexec_fn=no_more_room,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
        assert full.returncode == 1
        assert re.search(r"File too large; .*, and run the same command again", full.stderr)
    same(commands.finish(run, *options), golden)

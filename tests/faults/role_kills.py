"""kill -9 of random roles of a local run with workers, while it goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from faults.conftest import Commands, wait_until
from faults.test_killed import is_alive

from millstream.runs.termination import descendants


def kill_roles(commands: Commands, run: str, options: Sequence[str], *, kills: int, apart: int, seed: int) -> list[str]:
    """Kill so many roles of a run, each after up to `apart` more bytes of the epoch log; tells who was killed.

    Where it was the coordinator the run is started again, but for the last time, which always hits the coordinator.
    """
    rng, killed = random.Random(seed), list[str]()
    process = commands.start(run, *options)
    while len(killed) < kills:
        wanted = _written(commands, run) + rng.randrange(apart)
        wait_until(
            lambda process=process, wanted=wanted: _written(commands, run) >= wanted or process.poll() is not None,  # type: ignore[misc]
            "epochs",
        )
        if process.returncode is not None:
            _, said = process.communicate()
            raise AssertionError(f"it ended after {len(killed)} kills: {said}")
        family = descendants(process.pid)
        if len(killed) == kills - 1 or rng.random() < 0.3:
            _end(process, family)
            killed.append("the coordinator")
            if len(killed) < kills:
                process = commands.start(run, *options)
        elif family:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(family), signal.SIGKILL)
                killed.append("a worker")
    return killed


def _end(process: subprocess.Popen[str], family: Sequence[int]) -> None:
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(is_alive, family)), "the end of orphans")


def _written(commands: Commands, run: str) -> int:
    """How long the epoch log is: it grows with every epoch, and looking costs the run nothing."""
    return sum(part.stat().st_size for part in (commands.folder / run / "epochs").glob("*"))

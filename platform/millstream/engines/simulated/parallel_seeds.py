"""Schedules of many seeds, run in this process or in several."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from millstream.config.models import Config
from millstream.engines.fork_server import fork_server
from millstream.engines.simulated.simulation import Outcome, Simulation
from millstream.engines.simulated.world.logs import Recorded

__all__ = ["outcomes"]

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # a folder of our own is made in it
_AT_ONCE = 8
_simulations: list[Simulation] = []
"""The simulation of this process, if this process is one of several."""


def outcomes(config: Config, records: Recorded, seeds: Sequence[int], jobs: int = 1) -> Iterator[Outcome]:
    """Yield the outcomes of these seeds in order; with one job, a seed runs only when its outcome is requested."""
    parent = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="millstream-simulate-", dir=parent) as folder:
        if jobs == 1:
            yield from map(Simulation(config, records, Path(folder)).run, seeds)
            return
        pool = ProcessPoolExecutor(jobs, fork_server(config), _begin, (config, records, Path(folder)))
        try:
            yield from pool.map(_run, seeds, chunksize=_AT_ONCE)
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(config: Config, records: Recorded, folder: Path) -> None:
    _simulations.append(Simulation(config, records, folder / str(os.getpid())))


def _run(seed: int) -> Outcome:
    return _simulations[0].run(seed)

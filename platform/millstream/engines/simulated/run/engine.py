"""The simulated engine: the driver loop and feeds of a real run in one thread, in an order that a seed decides."""

from __future__ import annotations

import random
from collections.abc import Callable

from millstream.engines.driver import run_epochs
from millstream.engines.job import Job
from millstream.engines.local.single_process import SingleProcessFeed
from millstream.engines.simulated.world.files import UnsyncedFiles
from millstream.engines.simulated.world.graphs import Graphs
from millstream.engines.simulated.world.scheduler import Scheduler
from millstream.engines.simulated.world.worker_pool import SimulatedWorkerPool
from millstream.engines.simulated.world.world import World
from millstream.engines.workers.feed import run_with_workers

__all__ = ["SimulatedEngine"]


class SimulatedEngine:
    """Runs the epochs of a job as the local engine does, with or without workers.

    There are no processes, no sockets and no real clock.
    """

    def __init__(
        self,
        world: World,
        graphs: Graphs | None = None,
        unsynced: UnsyncedFiles | None = None,
        *,
        packing: bool = True,
    ) -> None:
        self._world, self._graphs, self._packing = world, graphs, packing
        self._unsynced = unsynced if unsynced is not None else UnsyncedFiles()

    @staticmethod
    def seeded(seed: int, trace: Callable[[str], None] | None = None) -> SimulatedEngine:
        """An engine in a world of its own, without faults."""
        return SimulatedEngine(World(Scheduler(random.Random(seed), trace)))

    def run(self, job: Job) -> None:
        clock = self._world.scheduler.clock
        if job.config.engine.workers == 1:
            with SingleProcessFeed(job) as feed:
                run_epochs(job, feed, clock)
            return
        graphs = self._graphs or Graphs(job.config, job.graph.fields)

        def open_pool(job: Job) -> SimulatedWorkerPool:
            return SimulatedWorkerPool(job, self._world, graphs, self._unsynced, packing=self._packing)

        run_with_workers(job, open_pool, clock)

"""The simulated engine: the production's code for workers, in one thread, in an order that a seed decides."""

from __future__ import annotations

import random
from collections.abc import Callable

from millstream.engines.job import Job
from millstream.engines.local.alone import run_alone
from millstream.engines.simulated.crew import SimulatedCrew
from millstream.engines.simulated.graphs import Graphs
from millstream.engines.simulated.machine import Machine
from millstream.engines.simulated.scheduler import Scheduler
from millstream.engines.workers.recovery import run_with_workers

__all__ = ["SimulatedEngine"]


class SimulatedEngine:
    """Runs a job's epochs as the local engine does, workers and all, without processes, sockets or a clock."""

    def __init__(self, machine: Machine, graphs: Graphs | None = None, *, packing: bool = True) -> None:
        self._machine, self._graphs, self._packing = machine, graphs, packing

    @staticmethod
    def seeded(seed: int, tell: Callable[[str], None] | None = None) -> SimulatedEngine:
        """An engine on a machine of its own, which nothing befalls."""
        return SimulatedEngine(Machine(Scheduler(random.Random(seed), tell)))

    def run(self, job: Job) -> None:
        clock = self._machine.scheduler.clock
        if job.config.engine.workers == 1:
            run_alone(job, clock)
            return
        graphs = self._graphs or Graphs(job.config.steps, job.graph.fields)
        run_with_workers(job, lambda job: SimulatedCrew(job, self._machine, graphs, packing=self._packing), clock)

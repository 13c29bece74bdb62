"""The one-machine engine: alone in this process, or with workers."""

from __future__ import annotations

from millstream.engines.job import Job
from millstream.engines.local.alone import run_alone

__all__ = ["LocalEngine"]

_MOST_LOSSES = 3


class LocalEngine:
    """Runs a job's epochs on this machine."""

    def run(self, job: Job) -> None:
        if job.config.engine.workers == 1:
            run_alone(job)
        else:
            run_with_workers(job)


def run_with_workers(job: Job) -> None:
    """Run a job with worker processes; if one is lost, all start again from what is durable."""
    from millstream.engines.local.crew import Crew, WorkerLost
    from millstream.engines.workers.coordinator import Workers, take_all
    from millstream.engines.workers.stages import stages_of

    stages, losses, last = stages_of(job.graph), 0, -1
    while True:
        try:
            with Crew(job) as crew:
                take_all(job, Workers(crew.names[:-1], stages, crew.post, crew.receive))
                return
        except WorkerLost as lost:
            through = job.epoch_log.totals.epochs
            losses = 1 if through > last else losses + 1
            last = through
            if losses == _MOST_LOSSES:
                message = f"{lost}; that was the {losses}rd time in a row that no epoch came through"
                raise WorkerLost(message) from lost
            job.restarted(f"{lost}; all workers start again from what is saved")

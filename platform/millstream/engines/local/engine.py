"""The one-machine engine: alone in this process, or with workers."""

from __future__ import annotations

from millstream.engines.job import Job
from millstream.engines.local.single_process import run_alone

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs a job's epochs on this machine."""

    def run(self, job: Job) -> None:
        if job.config.engine.workers == 1:
            run_alone(job, read_ahead=True)
            return
        from millstream.engines.local.worker_pool import WorkerPool
        from millstream.engines.recovery import run_with_workers

        run_with_workers(job, WorkerPool)

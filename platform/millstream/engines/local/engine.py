"""The local engine: one process, or worker processes, on one machine."""

from __future__ import annotations

from millstream.engines.driver import run_epochs
from millstream.engines.job import Job
from millstream.engines.local.single_process import SingleProcessFeed

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs the epochs of a job on this machine."""

    def run(self, job: Job) -> None:
        if job.config.engine.workers == 1:
            with SingleProcessFeed(job, read_ahead=True) as feed:
                run_epochs(job, feed)
            return
        from millstream.engines.local.worker_pool import LocalWorkerPool
        from millstream.engines.workers.feed import run_with_workers

        run_with_workers(job, LocalWorkerPool)

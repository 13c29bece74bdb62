"""The one-machine engine."""

from __future__ import annotations

from millstream.engines.job import Job
from millstream.engines.local.alone import run_alone

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs a job's epochs on this machine."""

    def run(self, job: Job) -> None:
        run_alone(job)

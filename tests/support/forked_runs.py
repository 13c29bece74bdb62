"""Forks of small runs: the fork itself, its receipts, and the rows that it must make."""

from __future__ import annotations

from typing import Any

from support.pipelines import Pipeline

from millstream.digests import Digest
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.log.epochs import EpochReader
from millstream.runs.directory import RunDirectory
from millstream.runs.fork import Fork, fork_run

__all__ = ["CHECKPOINTED", "fork", "interrupted", "made_after", "processed"]

CHECKPOINTED = (3, 7)
"""The epochs with checkpoints of an interrupted run."""


def interrupted(pipeline: Pipeline, name: str) -> RunDirectory:
    """A run with eight epochs and two checkpoints that was killed after its last commit."""
    pipeline.checkpoint_every = 4
    pipeline.crash(name, CrashPoint(Point.COMMIT, 7))
    return RunDirectory.find(pipeline.folder / "runs" / name)


def fork(pipeline: Pipeline, original: str, name: str, **options: Any) -> Fork:
    """Fork a run with the config of this pipeline."""
    runs = pipeline.folder / "runs"
    return fork_run(RunDirectory.find(runs / original), pipeline.loaded(name), runs / name, **options)


def processed(pipeline: Pipeline, name: str) -> list[int]:
    """The epochs of which a run has receipts, in the order of the receipts."""
    return [receipt.epoch for receipt in EpochReader(pipeline.folder / "runs" / name / "epochs").receipts()]


def made_after(pipeline: Pipeline, name: str, epoch: int) -> dict[str, str]:
    """By output, the digest of the rows that a run without crashes made of the epochs after this one."""
    digests: dict[str, Digest] = {}
    for receipt in EpochReader(pipeline.folder / "runs" / name / "epochs").receipts():
        if receipt.epoch > epoch:
            for output, digest in receipt.outputs.items():
                digests[output] = digests.get(output, Digest()) + digest
    return {output: str(digest) for output, digest in digests.items()}

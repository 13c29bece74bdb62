"""Observers of a run, for the progress display, metrics and MLflow. They never change a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.config.load import Loaded
from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import Cutter
from millstream.log.epochs import EpochLog
from millstream.runs.directory import RunDirectory
from millstream.runs.summary import Summary
from millstream.state.checkpoints import Checkpoint
from millstream.steps.graph import Graph
from millstream.steps.processor import EpochResult

__all__ = ["Observer", "ObserverGroup", "Observers", "Watched"]


@dataclass(frozen=True)
class Watched:
    """The parts of one start of a run that an observer may read; the engine is not started yet."""

    loaded: Loaded
    graph: Graph
    directory: RunDirectory
    epoch_log: EpochLog
    cutter: Cutter
    backpressure: Backpressure
    archived: Path | None = None
    """The folder to which `--fresh` moved the previous run."""


class Observer:
    """Receives the events of a run's lifecycle and of its end; the methods of this class ignore them.

    The thread of the run makes all calls, except `checkpointed`: the thread that wrote the checkpoint makes it.
    """

    def started(self, first: int) -> None:
        """The state is loaded; `first` is the next epoch that the run processes."""

    def finished_epoch(self, result: EpochResult) -> None:
        """An epoch has passed all its points."""

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        """A checkpoint is on disk; writing it took `seconds`."""

    def restarted(self, reason: str) -> None:
        """Workers were restarted for this reason."""

    def finished(self, summary: Summary) -> None:
        """The run has ended cleanly, and its summary is written."""

    def close(self) -> None:
        """The run has ended, cleanly or not; no more calls follow."""


@dataclass
class ObserverGroup(Observer):
    """Calls several observers in their order."""

    observers: Sequence[Observer] = ()

    def started(self, first: int) -> None:
        for observer in self.observers:
            observer.started(first)

    def finished_epoch(self, result: EpochResult) -> None:
        for observer in self.observers:
            observer.finished_epoch(result)

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        for observer in self.observers:
            observer.checkpointed(checkpoint, seconds)

    def restarted(self, reason: str) -> None:
        for observer in self.observers:
            observer.restarted(reason)

    def finished(self, summary: Summary) -> None:
        for observer in self.observers:
            observer.finished(summary)

    def close(self) -> None:
        for observer in self.observers:
            observer.close()


Observers = Callable[[Watched], Sequence[Observer]]
"""A function that makes the observers of a start."""

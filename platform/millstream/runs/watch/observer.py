"""Observers of a run: live progress, metrics, MLflow. Observing never changes a result."""

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

__all__ = ["Observer", "Observers", "Watched", "Watching"]


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
    """The folder to which `--fresh` has moved the run before."""


class Observer:
    """Receives the events of a run's lifecycle, and of its end; by default it ignores them.

    All calls come from the run's own thread, but `checkpointed`, which comes from the thread that wrote the checkpoint.
    """

    def started(self, first: int) -> None:
        """State has been loaded; `first` is the epoch that the run goes on from."""

    def finished_epoch(self, result: EpochResult) -> None:
        """An epoch has passed all its points."""

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        """A checkpoint is on disk; writing it took so many seconds."""

    def restarted(self, reason: str) -> None:
        """Workers were started again, for this reason."""

    def finished(self, summary: Summary) -> None:
        """The run has ended cleanly, and its summary is written."""

    def close(self) -> None:
        """Nothing more comes, whether the end was clean or not."""


@dataclass
class Watching(Observer):
    """Several observers as one, called in their order."""

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
"""Makes the observers of a start."""

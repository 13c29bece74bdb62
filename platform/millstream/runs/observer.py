"""Who watches a run: live progress, metrics, MLflow. Watching never changes a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.config.load import Loaded
from millstream.engines.cutter import Backpressure, Cutter
from millstream.log.epochs import EpochLog
from millstream.runs.directory import RunDirectory
from millstream.runs.summary import Summary
from millstream.state.saves import Save
from millstream.steps.graph import Graph
from millstream.steps.processor import EpochResult

__all__ = ["Observer", "Observers", "Watched", "Watching"]


@dataclass(frozen=True)
class Watched:
    """What an observer may look at: one start of a run, its engine not yet started."""

    loaded: Loaded
    graph: Graph
    directory: RunDirectory
    epoch_log: EpochLog
    cutter: Cutter
    throttle: Backpressure
    archived: Path | None = None
    """Where the run went that `--fresh` moved away."""


class Observer:
    """Told of a run's beginning, of every epoch that is through, and of its end; each may be passed over.

    All comes from the run's own thread, but `saved`, which comes from the one that wrote.
    """

    def began(self, first: int) -> None:
        """State has been loaded; `first` is the epoch that the run goes on from."""

    def through(self, processed: EpochResult) -> None:
        """An epoch has passed all its points."""

    def saved(self, save: Save, seconds: float) -> None:
        """A save is on disk; writing it took so many seconds."""

    def restarted(self, reason: str) -> None:
        """Workers were started anew."""

    def finished(self, summary: Summary) -> None:
        """The run has ended cleanly, and its summary is written."""

    def close(self) -> None:
        """Nothing more comes, whether the end was clean or not."""


@dataclass(frozen=True)
class Watching(Observer):
    """Several observers as one, told in their order."""

    observers: Sequence[Observer]

    def began(self, first: int) -> None:
        for observer in self.observers:
            observer.began(first)

    def through(self, processed: EpochResult) -> None:
        for observer in self.observers:
            observer.through(processed)

    def saved(self, save: Save, seconds: float) -> None:
        for observer in self.observers:
            observer.saved(save, seconds)

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

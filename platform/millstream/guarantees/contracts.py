"""The contracts of the lifecycle: the steps that it runs, and the observer of its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.log.epochs import Epoch, PartitionName
from millstream.state.background import Background, Task
from millstream.state.checkpoints import Checkpoint
from millstream.state.layers import Sections
from millstream.state.stored_states import StoredStates
from millstream.steps.processor import EpochResult

__all__ = ["LifecycleObserver", "NoObserver", "Steps"]


class Steps(Protocol):
    """All steps of a pipeline with their state, in one process or in several."""

    def restore(self, states: StoredStates, partitions: Sequence[PartitionName]) -> None:
        """Continue from these states; `partitions` are those of the epoch log."""
        ...

    def skip(self, epoch: Epoch) -> None:
        """Skip an epoch that is lost to the state (at_most_once)."""
        ...

    def process(self, epoch: Epoch, attempt: int) -> EpochResult:
        """Process the next epoch in all steps."""
        ...

    def save(self, next_layer: Callable[[], str], background: Background) -> Task[Sections]:
        """Begin to write the state after the epochs processed so far into layers with names from `next_layer`.

        This process writes in `background`.
        """
        ...

    def work_ahead(self) -> None:
        """Let the next epochs change state before the epochs just processed are delivered."""
        ...


class LifecycleObserver(Protocol):
    """Receives the events of the lifecycle."""

    def started(self, first: int) -> None:
        """State is loaded; `first` is the first epoch to process."""
        ...

    def finished_epoch(self, result: EpochResult) -> None:
        """An epoch has passed all its points."""
        ...

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        """A checkpoint counts; `seconds` is the time that writing its files took."""
        ...

    def restarted(self, reason: str) -> None:
        """The lifecycle starts again from the newest checkpoint, for this reason."""
        ...


class NoObserver:
    """An observer that ignores all events."""

    def started(self, first: int) -> None: ...

    def finished_epoch(self, result: EpochResult) -> None: ...

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None: ...

    def restarted(self, reason: str) -> None: ...

"""Who watches a run: live progress, metrics, MLflow. Watching never changes a result."""

from __future__ import annotations

from typing import Protocol

from millstream.runs.summary import Summary
from millstream.steps.processing import Processed

__all__ = ["Observer"]


class Observer(Protocol):
    """Told of every epoch that is through, and of the end."""

    def through(self, processed: Processed) -> None: ...

    def finished(self, summary: Summary) -> None:
        """The run has ended cleanly."""
        ...

    def close(self) -> None:
        """No more epochs, cleanly or not."""
        ...

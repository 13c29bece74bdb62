"""The state of all steps in the driver's process, and its layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.engines.job import Job
from millstream.log.epochs import PartitionName
from millstream.state.background import Background, Task
from millstream.state.layer_writer import LayerWriter
from millstream.state.layers import Sections
from millstream.state.stored_states import States

__all__ = ["DriverState"]


class DriverState:
    """Restores the steps of a job's processor, and writes layers with their state."""

    def __init__(self, job: Job) -> None:
        self._processor, self._layers = job.processor, job.lifecycle.checkpoints.layers
        self._writer = LayerWriter(self._layers, self._processor.keyed)

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        self._processor.restore(states, partitions)
        self._writer = LayerWriter(self._layers, self._processor.keyed)

    def save(self, next_layer: Callable[[], str], background: Background) -> Task[Sections]:
        """Write the present state."""
        return background.start(self._writer.write(next_layer(), self._processor.save()))

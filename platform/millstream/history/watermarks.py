"""The watermarks of a history: from the greatest times that the tasks of the first leg have noted, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.history.folder import HistoryFolder
from millstream.history.head_task import head_task_name
from millstream.history.plan import Plan
from millstream.log.epochs import EpochReader, PartitionTable
from millstream.steps.graph import Graph
from millstream.substreams import Watermark
from millstream.substreams.event_time import EventTime

__all__ = ["latest_time", "watermarks"]


def latest_time(folder: HistoryFolder) -> int | None:
    """The greatest time of the records that the model's way reads; None if none of them has a time."""
    times = [time for note in folder.done({}).values() for time in note.latest.values() if time is not None]
    return max(times, default=None)


def watermarks(folder: HistoryFolder, plan: Plan, graph: Graph) -> Iterator[tuple[int, Watermark | None]]:
    """Yield every epoch, with the watermark of the sources if it has risen with this epoch."""
    clock, partitions = EventTime(), PartitionTable()
    epochs = EpochReader(folder.epochs).epochs()
    for number, block in enumerate(plan.blocks):
        latest = {rank: folder.note(head_task_name(number, rank)).latest for rank in block.spans}
        for _ in range(block.first, block.last + 1):
            epoch = next(epochs)
            for rank in partitions.follow(epoch):
                clock.join(rank, timed=graph.source(partitions[rank].source).timed)
            key = str(epoch.number)
            clock.observe({rank: times[key] for rank, times in latest.items() if key in times})
            yield epoch.number, clock.boundary(epoch.ended, epoch.idle)

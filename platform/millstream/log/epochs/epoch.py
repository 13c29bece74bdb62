"""Epochs: pieces of the stream, cut once, and the events between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Added", "Ended", "Epoch", "Event", "PartitionName", "SinkAdded", "SinkRemoved", "Skipped"]


@dataclass(frozen=True)
class PartitionName:
    """A partition as users see it; its place in the epoch log is its rank."""

    source: str
    name: str
    number: int


@dataclass(frozen=True)
class Added:
    """A partition appears, and is read from the offset `at` on; it takes the next rank."""

    partition: PartitionName
    at: int = 0


@dataclass(frozen=True)
class Ended:
    """A partition has ended for good with this epoch."""

    rank: int


@dataclass(frozen=True)
class SinkAdded:
    """A sink begins with this epoch; it counts as having everything before."""

    sink: str


@dataclass(frozen=True)
class SinkRemoved:
    """A sink ends before this epoch; if it comes back, it begins anew."""

    sink: str


@dataclass(frozen=True)
class Skipped:
    """What a partition held before the offset `to` was removed unread, and the config says to go on without it."""

    rank: int
    to: int


Event = Added | Ended | SinkAdded | SinkRemoved | Skipped


@dataclass(frozen=True)
class Epoch:
    """A piece of the stream: for each rank the offsets [from, to), and what happened beside the log.

    >>> Epoch.from_line(Epoch(0, {0: (0, 10)}, (Ended(0),)).line()) == Epoch(0, {0: (0, 10)}, (Ended(0),))
    True
    """

    number: int
    cut: Mapping[int, tuple[int, int]]
    events: tuple[Event, ...] = ()

    @property
    def size(self) -> int:
        """The offsets it spans: at least as many as it has records."""
        return sum(stop - start for start, stop in self.cut.values())

    def line(self) -> dict[str, Any]:
        events: list[dict[str, Any]] = []
        for event in self.events:
            if isinstance(event, Added):
                events.append({"added": asdict(event.partition), "at": event.at})
            elif isinstance(event, Ended):
                events.append({"ended": event.rank})
            elif isinstance(event, Skipped):
                events.append({"skipped": event.rank, "to": event.to})
            elif isinstance(event, SinkRemoved):
                events.append({"sink_removed": event.sink})
            else:
                events.append({"sink": event.sink})
        return {
            "epoch": self.number,
            "cut": {str(rank): list(span) for rank, span in self.cut.items()},
            "events": events,
        }

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> Epoch:
        events: list[Event] = []
        for event in line["events"]:
            if "added" in event:
                events.append(Added(PartitionName(**event["added"]), event["at"]))
            elif "ended" in event:
                events.append(Ended(event["ended"]))
            elif "skipped" in event:
                events.append(Skipped(event["skipped"], event["to"]))
            elif "sink_removed" in event:
                events.append(SinkRemoved(event["sink_removed"]))
            else:
                events.append(SinkAdded(event["sink"]))
        cut = {int(rank): (span[0], span[1]) for rank, span in line["cut"].items()}
        return Epoch(line["epoch"], cut, tuple(events))

"""Epochs: pieces of the stream, and the events that come with them."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = [
    "Added",
    "Build",
    "Decided",
    "Ended",
    "Epoch",
    "Event",
    "Idle",
    "NewModel",
    "PartitionName",
    "SinkAdded",
    "SinkRemoved",
    "Skipped",
    "Swap",
    "in_order",
]


@dataclass(frozen=True)
class PartitionName:
    """A partition as users see it. Within Millstream its rank identifies it: its index in the epoch log."""

    source: str
    name: str
    number: int


@dataclass(frozen=True)
class Added:
    """A partition appears. It gets the next rank and is read from the offset `at` on."""

    partition: PartitionName
    at: int = 0


@dataclass(frozen=True)
class Idle:
    """A partition is read to its end and silent: the watermark does not wait for it after this epoch.

    The watermark waits for the partition again from the next epoch on whose cut has records of the partition.
    """

    rank: int


@dataclass(frozen=True)
class Ended:
    """A partition ends with this epoch: no record will follow."""

    rank: int


@dataclass(frozen=True)
class SinkAdded:
    """A sink begins with this epoch. Epochs before it are not delivered to the sink."""

    sink: str


@dataclass(frozen=True)
class SinkRemoved:
    """A sink ends before this epoch. If the config has the sink again later, it begins again at that epoch."""

    sink: str


@dataclass(frozen=True)
class Skipped:
    """Records before the offset `to` were removed before the run read them, and the config allows to skip them."""

    rank: int
    to: int


@dataclass(frozen=True)
class Decided:
    """The rule of the shadow of this step held on the receipts, with these counts; a swap follows in the same epoch."""

    step: str
    rule: Mapping[str, float]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class NewModel:
    """The model of the step `step` is a registered version before the first record of this epoch.

    `version` is its address in the registry, or names the records of a warm start; `digest` is that of its state, which
    the run directory has. `trained` has by source and partition the offset up to which it was trained. Of the records
    of this run, the model has not learned `skipped` of those before this epoch, and learns `repeated` of those after it
    a second time.
    """

    step: str
    version: str
    digest: str
    trained: Mapping[str, Mapping[str, int]]
    skipped: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class Swap:
    """The model of the step `step` is that of its shadow before the first record of this epoch; the shadow has none.

    `version` is the address of the version with which the shadow began.
    """

    step: str
    version: str


@dataclass(frozen=True)
class Build:
    """The run goes on with these versions of libraries; receipts before the line of this epoch are not compared."""

    versions: Mapping[str, str]


Event = Added | Skipped | Idle | Ended | Decided | Swap | NewModel | SinkAdded | SinkRemoved | Build


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events of an epoch in the order in which they take effect."""
    kinds: tuple[type[Event], ...] = typing.get_args(Event)
    return tuple(sorted(events, key=lambda event: kinds.index(type(event))))


@dataclass(frozen=True)
class Epoch:
    """A piece of the stream: for each rank the offsets [from, to) (the cut), and the events of this epoch.

    `at` is the time of the cut by the planner's wall clock, in microseconds since 1970. It never falls from one epoch
    to the next, and it is the only clock on which a result may depend.

    >>> Epoch.from_line(Epoch(0, {0: (0, 10)}, (Ended(0),)).line()) == Epoch(0, {0: (0, 10)}, (Ended(0),))
    True
    """

    number: int
    cut: Mapping[int, tuple[int, int]]
    events: tuple[Event, ...] = ()
    at: int = 0

    @property
    def ranks(self) -> list[int]:
        """The partitions of which the cut has offsets."""
        return [rank for rank, (start, stop) in self.cut.items() if stop > start]

    @property
    def idle(self) -> list[int]:
        """The partitions that are idle from the boundary of this epoch on."""
        return [event.rank for event in self.events if isinstance(event, Idle)]

    @property
    def ended(self) -> list[int]:
        """The partitions that end with this epoch."""
        return [event.rank for event in self.events if isinstance(event, Ended)]

    @property
    def size(self) -> int:
        """The number of offsets in the cut: at least the number of records."""
        return sum(stop - start for start, stop in self.cut.values())

    def line(self) -> dict[str, Any]:
        """The epoch as a line of the epoch log."""
        events: list[dict[str, Any]] = []
        for event in self.events:
            if isinstance(event, Added):
                events.append({"added": asdict(event.partition), "at": event.at})
            elif isinstance(event, Idle):
                events.append({"idle": event.rank})
            elif isinstance(event, Ended):
                events.append({"ended": event.rank})
            elif isinstance(event, Skipped):
                events.append({"skipped": event.rank, "to": event.to})
            elif isinstance(event, NewModel):
                facts = {key: value for key, value in asdict(event).items() if key != "step"}
                events.append({"model": event.step, **facts})
            elif isinstance(event, Decided):
                events.append({"decided": event.step, "rule": dict(event.rule), "counts": dict(event.counts)})
            elif isinstance(event, Swap):
                events.append({"swap": event.step, "version": event.version})
            elif isinstance(event, SinkRemoved):
                events.append({"sink_removed": event.sink})
            elif isinstance(event, Build):
                events.append({"build": dict(event.versions)})
            else:
                events.append({"sink": event.sink})
        return {
            "epoch": self.number,
            "at": self.at,
            "cut": {str(rank): list(span) for rank, span in self.cut.items()},
            "events": events,
        }

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> Epoch:
        events: list[Event] = []
        for event in line["events"]:
            if "added" in event:
                events.append(Added(PartitionName(**event["added"]), event["at"]))
            elif "idle" in event:
                events.append(Idle(event["idle"]))
            elif "ended" in event:
                events.append(Ended(event["ended"]))
            elif "model" in event:
                facts = {key: value for key, value in event.items() if key != "model"}
                events.append(NewModel(event["model"], **facts))
            elif "skipped" in event:
                events.append(Skipped(event["skipped"], event["to"]))
            elif "decided" in event:
                events.append(Decided(event["decided"], event["rule"], event["counts"]))
            elif "swap" in event:
                events.append(Swap(event["swap"], event["version"]))
            elif "sink_removed" in event:
                events.append(SinkRemoved(event["sink_removed"]))
            elif "build" in event:
                events.append(Build(event["build"]))
            else:
                events.append(SinkAdded(event["sink"]))
        cut = {int(rank): (span[0], span[1]) for rank, span in line["cut"].items()}
        return Epoch(line["epoch"], cut, tuple(events), line["at"])

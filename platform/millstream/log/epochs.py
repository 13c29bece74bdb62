"""Epochs, notes and the epoch log: the one durable order in which a run meets its records.

The epoch log is a journal with three kinds of lines: an epoch (a cut and its events), a note (what processing an epoch
gave), a commit. Each part of it begins with what is defined over the whole log (`Totals`), so a start reads one part
and old parts can go.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from millstream.errors import AlteredLog
from millstream.log.baselines import Baselines, both
from millstream.log.journal import Entry, Journal, JournalReader

__all__ = [
    "Added",
    "Ended",
    "Epoch",
    "EpochLog",
    "EpochReader",
    "Event",
    "Note",
    "PartitionName",
    "SinkAdded",
    "SinkRemoved",
    "Skipped",
    "Totals",
]


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


@dataclass(frozen=True)
class Note:
    """What processing an epoch gave, durable before the first sink gets it.

    `inputs` has for each rank the record count and digest; `outputs` and `steps` digests in the order they were made.
    `baselines` are not known where an older version wrote the note.
    """

    epoch: int
    attempt: int
    records: int
    rejects: int
    correct: int
    labelled: int
    inputs: Mapping[int, tuple[int, str]]
    steps: Mapping[str, str]
    outputs: Mapping[str, tuple[int, str]]
    baselines: Baselines | None = None

    def line(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "epoch"}
        if self.baselines is not None:
            fields["baselines"] = self.baselines.counts()
        return {"note": self.epoch, **fields, "inputs": {str(rank): v for rank, v in self.inputs.items()}}

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> Note:
        fields = dict(line)
        return Note(
            epoch=fields.pop("note"),
            inputs={int(rank): (v[0], v[1]) for rank, v in fields.pop("inputs").items()},
            outputs={name: (v[0], v[1]) for name, v in fields.pop("outputs").items()},
            baselines=_baselines(fields.pop("baselines", None)),
            **fields,
        )


@dataclass
class Totals:
    """What is defined over the whole epoch log, kept up line by line."""

    next_epoch: int = 0
    partitions: list[PartitionName] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    sinks: dict[str, int] = field(default_factory=dict)
    """Those that are delivered to, and the epochs that they begin with."""
    removed: set[str] = field(default_factory=set)
    returned: dict[str, int] = field(default_factory=dict)
    """Those that were removed and are back, and the epochs that they begin with again."""
    committed: int = -1
    epochs: int = 0
    records: int = 0
    processed: int = 0
    rejects: int = 0
    correct: int = 0
    labelled: int = 0
    baselines: Baselines | None = field(default_factory=Baselines)
    """Not known once records are counted whose note does not have them."""
    rows: dict[str, int] = field(default_factory=dict)
    """How many rows were made for each output."""

    @property
    def accuracy(self) -> float | None:
        """The share of labelled records that were predicted right."""
        return self.correct / self.labelled if self.labelled else None

    @property
    def baseline_accuracies(self) -> Mapping[str, float] | None:
        """By name, what the accuracy would have been without reading the records."""
        return self.baselines.shares(self.labelled) if self.baselines is not None else None

    def take_epoch(self, epoch: Epoch) -> None:
        if epoch.number != self.next_epoch:
            message = f"the epoch log goes from epoch {self.next_epoch - 1} to {epoch.number}; its files were altered"
            raise AlteredLog(message)
        self.next_epoch += 1
        for event in epoch.events:
            if isinstance(event, Added):
                self.positions[len(self.partitions)] = event.at
                self.partitions.append(event.partition)
            elif isinstance(event, Ended):
                self.ended.add(event.rank)
            elif isinstance(event, Skipped):
                self.positions[event.rank] = event.to
            elif isinstance(event, SinkRemoved):
                self.sinks.pop(event.sink, None)
                self.returned.pop(event.sink, None)
                self.removed.add(event.sink)
            else:
                if event.sink in self.removed:
                    self.removed.discard(event.sink)
                    self.returned[event.sink] = epoch.number
                self.sinks[event.sink] = epoch.number
        for rank, (_, stop) in epoch.cut.items():
            self.positions[rank] = stop

    def take_note(self, note: Note) -> None:
        self.processed += note.records
        if note.attempt == 1:
            self.epochs += 1
            self.records += note.records
            self.rejects += note.rejects
            self.correct += note.correct
            self.labelled += note.labelled
            if note.labelled:
                self.baselines = both(self.baselines, note.baselines)
            for output, (count, _) in note.outputs.items():
                self.rows[output] = self.rows.get(output, 0) + count

    def take(self, line: Mapping[str, Any]) -> None:
        if "epoch" in line:
            self.take_epoch(Epoch.from_line(line))
        elif "note" in line:
            self.take_note(Note.from_line(line))
        else:
            self.committed = line["commit"]

    def header(self) -> bytes:
        return json.dumps({**asdict(self), "ended": sorted(self.ended), "removed": sorted(self.removed)}).encode()

    @staticmethod
    def from_header(header: bytes) -> Totals:
        if not header:
            return Totals()
        fields = json.loads(header)
        fields["partitions"] = [PartitionName(**partition) for partition in fields["partitions"]]
        fields["positions"] = {int(rank): offset for rank, offset in fields["positions"].items()}
        fields["ended"] = set(fields["ended"])
        fields["removed"] = set(fields["removed"])
        fields["baselines"] = _baselines(fields.get("baselines", None if fields["labelled"] else {}))
        return Totals(**fields)


def _baselines(counts: Mapping[str, int] | None) -> Baselines | None:
    return None if counts is None else Baselines(**counts)


_written: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":")).encode


def _parsed(entry: Entry) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(entry.payload)
    return line


class EpochReader:
    """Reads an epoch log beside its writer, from another thread or process."""

    def __init__(self, folder: Path) -> None:
        self._reader = JournalReader(folder)
        self._next = self._reader.first_index

    @property
    def id(self) -> str:
        return self._reader.id

    def lines(self, epoch: int = 0) -> Iterator[dict[str, Any]]:
        """All lines from the one that cuts `epoch` on, as far as they go now."""
        found = False
        for entry in self._reader.read(self._part_of(epoch)):
            line = _parsed(entry)
            found = found or line.get("epoch") == epoch
            if found:
                yield line

    def epochs(self, first: int = 0) -> Iterator[Epoch]:
        """The epochs from `first` on."""
        return (Epoch.from_line(line) for line in self.lines(first) if "epoch" in line)

    def notes(self, first: int = 0) -> Iterator[Note]:
        """The notes written after epoch `first` was cut; a replayed epoch has several."""
        return (Note.from_line(line) for line in self.lines(first) if "note" in line)

    def totals(self) -> Totals:
        """What is defined over the whole log as it is now."""
        end = self._reader.end()
        start, header = self._reader.part_start(end)
        totals = Totals.from_header(header)
        for entry in self._reader.read(start, end):
            totals.take(_parsed(entry))
        return totals

    def follow(self, first: int) -> Iterator[Epoch]:
        """Epochs from `first` on that were cut since the last call."""
        if self._next <= self._reader.first_index:
            self._next = self._part_of(first)
        for entry in self._reader.read(self._next):
            self._next = entry.index + 1
            if entry.payload.startswith(b'{"epoch"'):
                epoch = Epoch.from_line(_parsed(entry))
                if epoch.number >= first:
                    yield epoch

    def _part_of(self, epoch: int) -> int:
        """Where the last part begins that was begun before this epoch was cut."""
        low, high = self._reader.first_index, self._reader.end()
        if low == high:
            return low
        first = low
        while low < high:
            start, header = self._reader.part_start((low + high) // 2)
            if Totals.from_header(header).next_epoch <= epoch:
                first = start
                low = (low + high) // 2 + 1
            else:
                high = start
        return first


class EpochLog:
    """The one writer of an epoch log. Lines are on their way when appended, durable after `sync`."""

    def __init__(self, folder: Path) -> None:
        self.totals = Totals()
        self._lock = threading.Lock()
        self._journal = Journal(folder, header=lambda: self.totals.header())
        self.totals = Totals.from_header(self._journal.header)
        self.folder = folder
        newest, _ = JournalReader(folder).part_start(self._journal.next_index)
        for entry in self._journal.entries(newest):
            self.totals.take(_parsed(entry))

    @property
    def id(self) -> str:
        return self._journal.id

    def reader(self) -> EpochReader:
        return EpochReader(self.folder)

    def cut(self, epoch: Epoch) -> None:
        with self._lock:
            self._append(epoch.line())
            self.totals.take_epoch(epoch)

    def note(self, note: Note) -> None:
        with self._lock:
            self._append(note.line())
            self.totals.take_note(note)

    def commit(self, epoch: int) -> None:
        with self._lock:
            self._append({"commit": epoch})
            self.totals.committed = epoch

    def sync(self) -> None:
        """Everything appended so far is durable on return."""
        self._journal.sync()

    def close(self) -> None:
        self._journal.close()

    def _append(self, line: dict[str, Any]) -> None:
        self._journal.append(_written(line).encode())

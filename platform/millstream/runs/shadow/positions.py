"""Positions of a version in the stream of a run: which records of each epoch the version has not learned.

A version has a position in each partition, and a cut may lie on both sides of it. The records of the cut from the
position on are learned, and the records before it are not: so the version learns every record once, also if it is
behind the stream in one partition and ahead of the stream in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millstream.log.epochs import Added, Epoch, PartitionName, PartitionTable, Skipped, Totals
from millstream.log.ranges import Range

__all__ = ["Parts", "VersionPositions"]


@dataclass(frozen=True)
class Parts:
    """The records of an epoch that a version has to learn, and those that it `knows`.

    `earlier` are records that the version has to learn and that no epoch of the run has: those between the position of
    the version and the first record of the run.
    """

    earlier: list[Range]
    learn: list[Range]
    knows: list[Range]


@dataclass
class VersionPositions:
    """The positions of a version, while it follows the epochs of a run.

    `trained` has by source and partition the position of the version, `begins` returns the position in a partition that
    the version does not know, given the beginning of that partition in the run. `totals` are those of the run before
    the first epoch that is followed.

    >>> from millstream.log.epochs import PartitionName
    >>> totals = Totals(partitions=[PartitionName("news", "a", 0)], positions={0: 0})
    >>> positions = VersionPositions({"news": {"a": 7}}, totals, lambda partition, at: at)
    >>> parts = positions.follow(Epoch(0, {0: (0, 10)}))
    >>> [(part.start, part.stop) for part in (*parts.knows, *parts.learn)], positions.ahead
    ([(0, 7), (7, 10)], {})
    """

    trained: Mapping[str, Mapping[str, int]]
    totals: Totals
    begins: Callable[[tuple[str, str], int], int]
    partitions: PartitionTable = field(init=False)
    _learned: dict[int, int] = field(default_factory=dict, init=False)
    """By rank the offset up to which the version has learned."""
    _stream: dict[int, int] = field(default_factory=dict, init=False)
    """By rank the position of the run."""

    def __post_init__(self) -> None:
        self.partitions = PartitionTable()
        for rank, name in enumerate(self.totals.partitions):
            self._add(self.partitions.add(name), self.totals.positions[rank])

    def _add(self, rank: int, at: int) -> None:
        name = self.partitions[rank]
        known = self.trained.get(name.source, {}).get(name.name)
        self._stream[rank] = at
        self._learned[rank] = self.begins((name.source, name.name), at) if known is None else known

    @property
    def missing(self) -> dict[str, int]:
        """The partitions in which the run began behind the version: their records up to there are in no epoch."""
        return {
            self.partitions.label(rank): self._stream[rank] - offset
            for rank, offset in self._learned.items()
            if offset < self._stream[rank]
        }

    @property
    def ahead(self) -> dict[str, int]:
        """The partitions in which the version is ahead of the run, with the offsets until the run is there."""
        known = {(name.source, name.name) for name in self.partitions}
        unseen = {
            f"{source}/{name}": offset
            for source, parts in self.trained.items()
            for name, offset in parts.items()
            if (source, name) not in known and offset
        }
        return unseen | {
            self.partitions.label(rank): offset - self._stream[rank]
            for rank, offset in self._learned.items()
            if offset > self._stream[rank]
        }

    def ahead_ranges(self, beginning: Callable[[str, str], int]) -> list[Range]:
        """The offsets between the run and the version, where the version is ahead of the run."""
        known = {(name.source, name.name) for name in self.partitions}
        unseen = [
            Range(-1, PartitionName(source, name, -1), beginning(source, name), offset)
            for source, parts in self.trained.items()
            for name, offset in parts.items()
            if (source, name) not in known and offset
        ]
        return unseen + [
            Range(rank, self.partitions[rank], self._stream[rank], offset)
            for rank, offset in self._learned.items()
            if offset > self._stream[rank]
        ]

    @property
    def offsets(self) -> dict[str, dict[str, int]]:
        """By source and partition the offset up to which the version has learned."""
        found: dict[str, dict[str, int]] = {}
        for rank, name in enumerate(self.partitions):
            found.setdefault(name.source, {})[name.name] = self._learned[rank]
        return found

    def follow(self, epoch: Epoch) -> Parts:
        """The parts of the next epoch; the version has learned them afterwards."""
        earlier: list[Range] = []
        for event in epoch.events:
            if isinstance(event, Added):
                rank = self.partitions.add(event.partition)
                self._add(rank, event.at)
                if self._learned[rank] < event.at:
                    earlier.append(Range(rank, event.partition, self._learned[rank], event.at))
                    self._learned[rank] = event.at
            elif isinstance(event, Skipped):
                self._stream[event.rank] = event.to
                self._learned[event.rank] = max(event.to, self._learned[event.rank])
        learn: list[Range] = []
        knows: list[Range] = []
        for rank, (start, stop) in epoch.cut.items():
            name, middle = self.partitions[rank], min(max(start, self._learned[rank]), stop)
            knows += [Range(rank, name, start, middle)] if start < middle else []
            learn += [Range(rank, name, middle, stop)] if middle < stop else []
            self._stream[rank] = stop
            self._learned[rank] = max(stop, self._learned[rank])
        return Parts(earlier, learn, knows)

"""The partitions of an epoch log by rank. The rank is the index of a partition in the log and never changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from millstream.log.epochs.epoch import Added, Epoch, PartitionName

__all__ = ["PartitionTable"]


class PartitionTable:
    """The partitions by rank, kept up to date with the `Added` events of epochs.

    >>> table = PartitionTable([PartitionName("news", "a", 0)])
    >>> table.follow(Epoch(3, {}, (Added(PartitionName("news", "b", 1)),)))
    [1]
    >>> table.position(1, 7), table.position(2, 7)
    ('news/b offset 7', 'partition 2 offset 7')
    """

    def __init__(self, partitions: Iterable[PartitionName] = ()) -> None:
        self._names = dict(enumerate(partitions))
        self._ranks = {name: rank for rank, name in self._names.items()}

    def __getitem__(self, rank: int) -> PartitionName:
        return self._names[rank]

    def __iter__(self) -> Iterator[PartitionName]:
        return iter(self._names.values())

    def __len__(self) -> int:
        return len(self._names)

    def add(self, partition: PartitionName) -> int:
        """The rank of a partition; a new partition is added and gets the next rank."""
        rank = self._ranks.setdefault(partition, len(self._names))
        self._names[rank] = partition
        return rank

    def follow(self, epoch: Epoch) -> list[int]:
        """Add the partitions that the epoch's events add; returns their ranks."""
        return [self.add(event.partition) for event in epoch.events if isinstance(event, Added)]

    def learn(self, names: Mapping[int, PartitionName]) -> None:
        """Add partitions whose ranks another process has given; lower ranks may be missing."""
        self._names |= names
        self._ranks |= {name: rank for rank, name in names.items()}

    def label(self, rank: int) -> str:
        """The partition's name for messages."""
        name = self._names.get(rank)
        return f"{name.source}/{name.name}" if name is not None else f"partition {rank}"

    def position(self, rank: int, offset: int) -> str:
        """The position of a record for messages."""
        return f"{self.label(rank)} offset {offset}"

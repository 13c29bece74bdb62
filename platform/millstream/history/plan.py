"""The plan of a history: the cuts in its folder, the blocks of epochs that tasks compute, and what was read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from millstream.log.epochs import Epoch, EpochReader, PartitionName, PartitionTable, Skipped
from millstream.state.model_version import Trained

__all__ = ["BLOCK_RECORDS", "Block", "Plan", "ReadPartition", "blocks_of", "gaps_of"]

BLOCK_RECORDS = 50_000
"""The records of one partition in a block, about; a block has at most ten times as many of all partitions."""


@dataclass(frozen=True)
class Block:
    """Epochs that follow each other: for each rank the offsets [start, stop) of their cuts, skipped ones included."""

    first: int
    last: int
    spans: Mapping[int, tuple[int, int]]

    @property
    def size(self) -> int:
        return sum(stop - start for start, stop in self.spans.values())


@dataclass(frozen=True)
class ReadPartition:
    """A partition by its name, the offsets that the cuts have of it, and the log's identity up to their end."""

    source: str
    name: str
    number: int
    begin: int
    end: int
    identity: str

    @property
    def key(self) -> PartitionName:
        return PartitionName(self.source, self.name, self.number)


@dataclass(frozen=True)
class Gap:
    """Offsets [start, stop) of a partition that the log no longer had when the cuts were made."""

    source: str
    name: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.source}/{self.name}: offsets {self.start:,} to {self.stop - 1:,} were removed from the log"


@dataclass(frozen=True)
class Plan:
    """The blocks of a history in order. `cuts` is the id of the replayed epoch log; empty for those of a bounded run.

    `partitions` are in the order of their ranks.
    """

    cuts: str
    epochs: int
    blocks: tuple[Block, ...]
    partitions: tuple[ReadPartition, ...]
    gaps: tuple[Gap, ...]

    def names(self) -> PartitionTable:
        """The partitions by rank."""
        return PartitionTable([partition.key for partition in self.partitions])

    def trained(self, blocks: int | None = None) -> dict[str, dict[str, Trained]]:
        """The positions of a model that has learned all, or the first blocks: these without identities of logs."""
        found: dict[str, dict[str, Trained]] = {}
        for rank, partition in enumerate(self.partitions):
            ends = [block.spans[rank][1] for block in self.blocks[:blocks] if rank in block.spans]
            upto = partition.end if blocks is None else ends[-1] if ends else partition.begin
            part = Trained(upto, partition.identity if blocks is None else "")
            found.setdefault(partition.source, {})[partition.name] = part
        return found

    @property
    def size(self) -> int:
        """The number of offsets in all cuts."""
        return sum(block.size for block in self.blocks)

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_text(text: str) -> Plan:
        content: dict[str, Any] = json.loads(text)
        blocks = tuple(
            Block(each["first"], each["last"], {int(r): (s[0], s[1]) for r, s in each["spans"].items()})
            for each in content["blocks"]
        )
        partitions = tuple(ReadPartition(**each) for each in content["partitions"])
        return Plan(content["cuts"], content["epochs"], blocks, partitions, tuple(Gap(**g) for g in content["gaps"]))


def blocks_of(epochs: Iterator[Epoch], partitions: int, records: int = BLOCK_RECORDS) -> list[Block]:
    """Divide epochs into blocks: each has about `records` of every partition, at least one epoch.

    >>> epochs = [Epoch(0, {0: (0, 30)}), Epoch(1, {0: (30, 50), 1: (0, 40)}), Epoch(2, {1: (40, 50)})]
    >>> [(block.first, block.last, block.spans) for block in blocks_of(iter(epochs), 2, 40)]
    [(0, 1, {0: (0, 50), 1: (0, 40)}), (2, 2, {1: (40, 50)})]
    """
    most = records * min(max(partitions, 1), 10)
    blocks: list[Block] = []
    held: list[Epoch] = []
    size = 0
    for epoch in epochs:
        held.append(epoch)
        size += epoch.size
        if size >= most:
            blocks.append(_block(held))
            held, size = [], 0
    return [*blocks, *([_block(held)] if held else [])]


def _block(epochs: Sequence[Epoch]) -> Block:
    spans: dict[int, tuple[int, int]] = {}
    for epoch in epochs:
        for rank in epoch.ranks:
            start, stop = epoch.cut[rank]
            spans[rank] = (spans.get(rank, (start, stop))[0], stop)
    return Block(epochs[0].number, epochs[-1].number, spans)


def gaps_of(epochs: EpochReader) -> list[Gap]:
    """The offsets that retention had removed before they were read: at the beginning of a partition, or later."""
    gaps: list[Gap] = []
    partitions = PartitionTable()
    positions: dict[int, int] = {}
    for epoch in epochs.epochs():
        for rank in partitions.follow(epoch):
            positions[rank] = 0
        for event in epoch.events:
            if isinstance(event, Skipped):
                gaps.append(_gap(partitions[event.rank], positions[event.rank], event.to))
                positions[event.rank] = event.to
        for rank, (start, stop) in epoch.cut.items():
            if start > positions[rank]:
                gaps.append(_gap(partitions[rank], positions[rank], start))
            positions[rank] = stop
    return gaps


def _gap(partition: PartitionName, start: int, stop: int) -> Gap:
    return Gap(partition.source, partition.name, start, stop)

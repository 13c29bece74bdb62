"""The part of a history of which features are written: from an epoch or offsets on, and up to others."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import ConfigError
from millstream.history.order import EPOCH
from millstream.history.plan import Block, Plan, ReadPartition
from millstream.records import OFFSET
from millstream.suggestions import suggestion

__all__ = ["WHOLE", "Bounds"]


@dataclass(frozen=True)
class Bounds:
    """The epochs [first, stop), and by `source/partition` the offsets [begins, ends); what is not named is whole.

    >>> bounds = Bounds.parse(["3", "news/part0:500"], ["news/part0:900"])
    >>> bounds
    Bounds(first=3, stop=None, begins={'news/part0': 500}, ends={'news/part0': 900})
    """

    first: int = 0
    stop: int | None = None
    begins: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def parse(begin: Sequence[str], end: Sequence[str]) -> Bounds:
        """The bounds that `--from` and `--to` name: each is an epoch, or `source/partition:offset`."""
        first, begins = _parsed("--from", begin)
        stop, ends = _parsed("--to", end)
        ranges = [("", first or 0, stop), *((f"{name}:", begins.get(name, 0), last) for name, last in ends.items())]
        for name, start, last in ranges:
            if last is not None and start >= last:
                raise ConfigError(f"--from {name}{start} is not before --to {name}{last}: no record is between them")
        return Bounds(first or 0, stop, begins, ends)

    @property
    def whole(self) -> bool:
        return self == WHOLE

    def check(self, plan: Plan) -> None:
        """Refuse partitions that the history does not have, and a first epoch after its last one."""
        if self.first > (last := plan.epochs - 1):
            raise ConfigError(f"--from {self.first}: the history has no such epoch; its last one is {last}")
        names = [_label(partition) for partition in plan.partitions]
        for name in [*self.begins, *self.ends]:
            if name not in names:
                known = suggestion(name, names, f"there are {', '.join(names[:5])}")
                raise ConfigError(f"the history has no partition {name!r}{known}")

    def touches(self, block: Block, rank: int, partition: ReadPartition) -> bool:
        """True if features of this partition in a block may be within the bounds."""
        start, stop = block.spans[rank]
        name = _label(partition)
        epochs = block.last >= self.first and (self.stop is None or block.first < self.stop)
        return epochs and stop > self.begins.get(name, 0) and start < self.ends.get(name, stop)

    def within(self, features: pa.Table, partition: ReadPartition) -> pa.Table:
        """The features of a partition that are within the bounds."""
        name, conditions = _label(partition), []
        if self.first:
            conditions.append(pc.greater_equal(features[EPOCH], self.first))
        if self.stop is not None:
            conditions.append(pc.less(features[EPOCH], self.stop))
        if name in self.begins:
            conditions.append(pc.greater_equal(features[OFFSET], self.begins[name]))
        if name in self.ends:
            conditions.append(pc.less(features[OFFSET], self.ends[name]))
        return features.filter(functools.reduce(pc.and_, conditions)) if conditions else features


WHOLE = Bounds()
"""All features of a history."""


def _parsed(option: str, values: Sequence[str]) -> tuple[int | None, dict[str, int]]:
    epoch: int | None = None
    offsets: dict[str, int] = {}
    for value in values:
        name, _, number = value.rpartition(":")
        if not number.isascii() or not number.isdecimal() or (name and "/" not in name):
            message = f"{option} {value!r} is neither an epoch, as in 12, nor a position, as in news/part0.jsonl:5000"
            raise ConfigError(message)
        if name:
            offsets[name] = int(number)
        else:
            epoch = int(number)
    return epoch, offsets


def _label(partition: ReadPartition) -> str:
    return f"{partition.source}/{partition.name}"

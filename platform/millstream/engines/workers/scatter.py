"""The scatter of what a leg passes on: each owner of shards gets the records of its keys, the sequencer the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engines.workers.leg_runner import Passed
from millstream.engines.workers.legs import LOG, Leg, Legs, Place
from millstream.engines.workers.messages import EpochPart
from millstream.log.epochs import PartitionName, PartitionTable
from millstream.records import RANK
from millstream.steps.contracts import Array
from millstream.steps.keys import keys_of, position_keys, shards_of

__all__ = ["Scatter"]

_Tables = Mapping[str, pa.Table]


class Scatter:
    """Makes the parts of what the legs of one sender pass on: one part for each receiver."""

    def __init__(self, legs: Legs, readers: Sequence[str], sequencer: str, shards: int, sender: int) -> None:
        self._legs, self._readers, self._sequencer = legs, readers, sequencer
        self._shards, self._sender = shards, sender
        self._named: set[int] = set()
        """The partitions whose names were sent."""

    def parts(self, passed: Passed, partitions: PartitionTable, ranks: Sequence[int] = ()) -> dict[str, EpochPart]:
        """The parts by receiver; they name the partitions with these ranks, if no part has named them yet."""
        by_receiver: dict[str, dict[int, _Tables]] = {}
        for index, tables in passed.tables.items():
            leg = self._legs.all[index]
            if leg.place is Place.ONE:
                by_receiver.setdefault(self._sequencer, {})[index] = tables
                continue
            for owner, share in zip(self._readers, self._divided(tables, leg, partitions), strict=True):
                by_receiver.setdefault(owner, {})[index] = share
        if passed.report is not None:
            by_receiver.setdefault(self._sequencer, {})
        names = self._new_names(partitions, ranks) if by_receiver.keys() != {self._sequencer} else {}
        epoch, made, phase = passed.epoch, passed.leg.index, passed.phase
        return {
            receiver: EpochPart(epoch, made, phase, self._sender, tables, passed.report, {}, passed.round)
            if receiver == self._sequencer
            else EpochPart(epoch, made, phase, self._sender, tables, None, names, passed.round)
            for receiver, tables in by_receiver.items()
        }

    def _divided(self, tables: _Tables, leg: Leg, partitions: PartitionTable) -> Sequence[_Tables]:
        """The records of each owner of keys.

        If a stream goes to all, the other records need not be together by key: their positions spread them evenly.
        """
        owners = len(self._readers)
        shares: list[dict[str, pa.Table]] = [{} for _ in range(owners)]
        for stream, table in tables.items():
            records = _of_sources(table, leg, partitions) if stream == LOG else table
            if owners == 1 or stream == leg.to_all:
                for share in shares:
                    share[stream] = records
                continue
            keys = keys_of(records, leg.key) if leg.to_all is None else position_keys(records)
            owner_of = shards_of(keys, self._shards) % owners
            copied = _copied(records, leg, partitions) if stream == LOG else np.zeros(records.num_rows, np.bool_)
            for owner, share in enumerate(shares):
                share[stream] = records.filter(pa.array((owner_of == owner) | copied))
        return shares

    def _new_names(self, partitions: PartitionTable, ranks: Sequence[int]) -> dict[int, PartitionName]:
        names = {rank: partitions[rank] for rank in ranks if rank not in self._named}
        self._named |= names.keys()
        return names


def _copied(records: pa.Table, leg: Leg, partitions: PartitionTable) -> Array:
    """True for records of a source that goes to all."""
    ranks = pc.unique(records[RANK]).to_pylist()
    copied = [rank for rank in ranks if partitions[rank].source == leg.to_all]
    found: Array = np.isin(records[RANK].to_numpy(), copied)
    return found


def _of_sources(records: pa.Table, leg: Leg, partitions: PartitionTable) -> pa.Table:
    """The records of the sources that a leg reads."""
    ranks = pc.unique(records[RANK]).to_pylist()
    read = [rank for rank in ranks if partitions[rank].source in leg.sources]
    return records if len(read) == len(ranks) else records.filter(pc.is_in(records[RANK], pa.array(read, pa.int32())))

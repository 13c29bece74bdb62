"""The order of records in an epoch, by their position: with it, streams of one epoch are merged again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.records import OFFSET, RANK
from millstream.steps.contracts import Array

__all__ = ["RecordOrder"]


@dataclass(frozen=True)
class RecordOrder:
    """The order of the log's records in an epoch: for each rank the offsets, which rise, and their places in the epoch.

    >>> order = RecordOrder.of(pa.table({"_rank": [1, 0, 1], "_offset": [5, 7, 6]}))
    >>> order.places(pa.table({"_rank": [1, 1, 0], "_offset": [6, 5, 7]})).tolist()
    [2, 0, 1]
    """

    offsets: dict[int, Array]
    indices: dict[int, Array]

    @staticmethod
    def of(records: pa.Table) -> RecordOrder:
        """The order of these records, which are in step order."""
        ranks, offsets = records[RANK].to_numpy(), records[OFFSET].to_numpy()
        indices = {rank: np.flatnonzero(ranks == rank) for rank in np.unique(ranks).tolist()}
        return RecordOrder({rank: offsets[found] for rank, found in indices.items()}, indices)

    def places(self, records: pa.Table) -> Array:
        """The place in the epoch of each of these records, or of the record from which it was made."""
        ranks, offsets = records[RANK].to_numpy(), records[OFFSET].to_numpy()
        places = np.empty(len(ranks), np.int64)
        for rank in np.unique(ranks).tolist():
            chosen = ranks == rank
            places[chosen] = self.indices[rank][np.searchsorted(self.offsets[rank], offsets[chosen])]
        return places

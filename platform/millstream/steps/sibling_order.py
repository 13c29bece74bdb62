"""The order of siblings: records made of one record, in one round, are in the order of their paths.

Rows of windows have the number of their window as offset, so siblings have the same time too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.steps.round_paths import rounds_of

__all__ = ["in_sibling_order"]


def in_sibling_order(records: pa.Table) -> pa.Table:
    """Put siblings, which follow each other, in the order of their paths; a later round of a cycle stays behind.

    They are in another order if a step makes children of a record and of that record's own child.

    >>> paths = [b"0", b"1", b"00"]
    >>> columns = {name: [7] * 3 for name in ("_rank", "_offset", "_time")}
    >>> in_sibling_order(pa.table({**columns, "_path": paths}))["_path"].to_pylist()
    [b'0', b'00', b'1']
    """
    ranks, offsets = records[RANK].to_numpy(), records[OFFSET].to_numpy()
    again = (ranks[1:] == ranks[:-1]) & (offsets[1:] == offsets[:-1])
    if not again.any():
        return records
    if TIME in records.column_names:  # rows of an output may have none
        times = pc.fill_null(records[TIME], np.iinfo(np.int64).min).to_numpy()
        again &= times[1:] == times[:-1]
    rounds = rounds_of(records[PATH])
    again &= rounds[1:] == rounds[:-1]
    before = np.flatnonzero(again)
    if not len(before):
        return records
    paths = records[PATH].combine_chunks()
    if not pc.any(pc.greater(paths.take(pa.array(before)), paths.take(pa.array(before + 1)))).as_py():
        return records
    family = np.cumsum(np.r_[True, ~again])
    keys = pa.table({"family": family, PATH: paths})
    return records.take(pc.sort_indices(keys, [("family", "ascending"), (PATH, "ascending")]))

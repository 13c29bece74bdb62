"""The records that a reader is told to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from millstream.engines.workers.messages import Range
from millstream.log.contracts import Log
from millstream.log.reading import fitted

__all__ = ["read_ranges"]


def read_ranges(ranges: Sequence[Range], log_of: Callable[[str], Log], schema: pa.Schema) -> pa.Table:
    """The records of these ranges; `log_of` gives the log of a source."""
    batches = []
    for wanted in ranges:
        log = log_of(wanted.partition.source)
        for batch in log.read(wanted.partition.name, wanted.start, wanted.stop):
            batches.append(fitted(batch, wanted.rank, schema))
    return pa.Table.from_batches(batches, schema)

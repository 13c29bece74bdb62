"""The places of records in their epoch, while its streams are divided among roles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed
from millstream.records import OFFSET, PATH, RANK
from millstream.steps.contracts import Array
from millstream.steps.record_order import RecordOrder
from millstream.steps.round_paths import rounds_of

__all__ = ["ORDER", "Places", "PlacesOfRounds", "in_order", "without_order"]

ORDER = "_order"
"""The column with the place of a record in its epoch, or of the record from which it was made.

A record that was sent back in a cycle comes after all others: the place has the rounds that brought it here, in the
upper bits.
"""
_ROUND = 40
"""The number of bits of the place without the rounds."""
_IN_EPOCH = (1 << _ROUND) - 1


class Places:
    """The places of the log's records from which some records were made.

    >>> places = Places([pa.table({"_rank": [0, 0, 1], "_offset": [7, 7, 4], "_order": [2, 2, 5]})])
    >>> places.of(pa.table({"_rank": [0, 1], "_offset": [7, 4]})).tolist()
    [2, 5]
    """

    def __init__(self, records: Sequence[pa.Table]) -> None:
        self._known: list[tuple[Array, Array, Array]] = [
            (each[RANK].to_numpy(), each[OFFSET].to_numpy(), each[ORDER].to_numpy() & _IN_EPOCH) for each in records
        ]

    @staticmethod
    def of_log(records: pa.Table) -> Places:
        """The places of the records of all sources, which are in step order."""
        return Places([records.select([RANK, OFFSET]).append_column(ORDER, pa.array(np.arange(records.num_rows)))])

    @cached_property
    def order(self) -> RecordOrder:
        """The order of the log's records, for a step that merges streams."""
        ranks, offsets, places = (np.concatenate(each) for each in zip(*self._known, strict=True))
        order = RecordOrder({}, {})
        for rank in np.unique(ranks).tolist():
            chosen = ranks == rank
            order.offsets[rank], first = np.unique(offsets[chosen], return_index=True)
            order.indices[rank] = places[chosen][first]
        return order

    def of(self, made: pa.Table) -> Array:
        """The places of rows that steps made of the records; `StepFailed` if they were made of other records."""
        places = self._of_log_records(made)
        return places + (rounds_of(made[PATH]) << _ROUND) if PATH in made.column_names else places

    def _of_log_records(self, made: pa.Table) -> Array:
        ranks, offsets = made[RANK].to_numpy(), made[OFFSET].to_numpy()
        for known_ranks, known_offsets, places in self._known:
            if np.array_equal(offsets, known_offsets) and np.array_equal(ranks, known_ranks):
                return places
        for rank in np.unique(ranks).tolist():
            known = self.order.offsets.get(rank, np.zeros(0, np.int64))
            wanted = offsets[ranks == rank]
            found = np.searchsorted(known, wanted)
            if (found == len(known)).any() or (known[found] != wanted).any():
                raise StepFailed(_wrong("are not made of records that it was given"))
        return self.order.places(made)

    def with_order(self, made: pa.Table) -> pa.Table:
        """Add their places to the records that a step made; `StepFailed` if they are not in order."""
        places = self.of(made)
        if (places[1:] < places[:-1]).any() or _siblings_out_of_order(made, places):
            raise StepFailed(_wrong("are not in the order of the records that it was given"))
        return made.append_column(ORDER, pa.array(places))


class PlacesOfRounds:
    """The places of the log's records from which the records of all rounds of a cycle were made.

    A record that goes around is held in its first round only.

    >>> found = PlacesOfRounds()
    >>> for number in range(3):
    ...     found.add(pa.table({"_rank": [0, 0], "_offset": [7, 7], "_order": [2 | number << 40] * 2}))
    >>> found.places().of(pa.table({"_rank": [0], "_offset": [7]})).tolist(), found.held
    ([2], 2)
    """

    def __init__(self) -> None:
        none = [pa.nulls(0, pa.int64())] * 3
        self._known = [pa.table(none, names=[RANK, OFFSET, ORDER])]
        self._seen = np.zeros(0, np.bool_)

    @property
    def held(self) -> int:
        """The number of records that are held."""
        return sum(each.num_rows for each in self._known)

    def add(self, records: pa.Table) -> None:
        """Add the records of a round, with their places."""
        places = records[ORDER].to_numpy() & _IN_EPOCH
        missing = int(places.max(initial=-1)) + 1 - len(self._seen)
        if missing > 0:
            self._seen = np.r_[self._seen, np.zeros(missing, np.bool_)]
        new = ~self._seen[places]
        if new.any():
            self._seen[places] = True
            self._known.append(records.select([RANK, OFFSET, ORDER]).filter(pa.array(new)))

    def places(self) -> Places:
        return Places(self._known)


def in_order(shares: Sequence[pa.Table]) -> pa.Table:
    """Put the records of several senders in the order of their places; those of one sender are in order."""
    if len(shares) == 1:
        return shares[0]
    records = pa.concat_tables(shares)
    if PATH in records.column_names and (pc.max(pc.binary_length(records[PATH])).as_py() or 0) > 0:
        keys = records.select([ORDER, PATH]).combine_chunks()
        order = pc.sort_indices(keys, [(ORDER, "ascending"), (PATH, "ascending")])
    else:
        order = pa.array(np.argsort(records[ORDER].to_numpy(), kind="stable"))
    return records.take(order)


def without_order(records: pa.Table) -> pa.Table:
    """The records without their places."""
    return records.drop_columns([ORDER]) if records.schema.get_field_index(ORDER) >= 0 else records


def _siblings_out_of_order(made: pa.Table, places: Array) -> bool:
    siblings = np.flatnonzero(places[1:] == places[:-1]) if PATH in made.column_names else np.zeros(0, np.int64)
    if not len(siblings):
        return False
    paths = made[PATH].combine_chunks()
    return bool(pc.any(pc.greater(paths.take(pa.array(siblings)), paths.take(pa.array(siblings + 1)))).as_py())


def _wrong(how: str) -> str:
    return (
        f"it made rows that {how}, so they cannot be ordered among the rows of other workers; make rows of the records "
        "that the step is given, in their order, or declare the step global"
    )

"""A step that passes on the first record with an id, and no other one within a time."""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_left
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.arrays import valid_rows
from millstream.config.durations import Duration
from millstream.records import TIME, no_records
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits, rejects_schema
from millstream.steps.keys import KeyFields, check_key, keys_of
from millstream.steps.reject_rows import reject_rows
from millstream.substreams import Watermark

__all__ = ["Dedupe"]

_TIME = struct.Struct("q")
"""A time in the state of an id, which has the times of the records that have passed, in their order."""
_WIDTH = _TIME.size


class Dedupe(BaseModel):
    """Passes on the first record with an id; later records with the same id, within a time, are rows of `repeated`.

    The first record is the first one in step order, whatever the order of the times. A record is repeated if a record
    with its id has passed whose time is at most `within` before or after its own; otherwise it passes too. The time of
    a record that has passed is forgotten when the watermark is more than `within` after it. So a record that is late,
    older than the watermark, may pass although its id came before. Records without an id or without a time go into
    `rejects`.

    >>> records = pa.table({"_rank": [0] * 3, "_offset": range(3), "_time": [0, 5, 11], "id": ["a", "a", "a"]})
    >>> result = Dedupe(by="id", within="10us").build(records.schema).process(records)
    >>> result.records["_offset"].to_pylist(), result.outputs["repeated"]["_offset"].to_pylist()
    ([0, 2], [1])
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["dedupe"] = "dedupe"
    name: str | None = Field(default=None, description="The name in messages and in `rejects`; the type if unset.")
    by: KeyFields = Field(description="The text field with the id, or a list of fields.")
    within: Duration = Field(
        gt=0,
        le=2**62,
        description="The event time after which an id may come again.",
        json_schema_extra={"keeps_state": True},
    )

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        traits = Traits(Scope.KEYED, ends=frozenset({"time"}), key=self.by)
        check_key(traits, records, f"step {name!r}, `by`")
        return _DedupeStep(name, traits, self.within, records)


class _DedupeStep:
    def __init__(self, name: str, traits: Traits, within: int, records: pa.Schema) -> None:
        self.traits = traits
        self.outputs = (Output("repeated", records), Output("rejects", rejects_schema(records)))
        self._name = name
        self._within = within
        self._no_records = no_records(records)
        self._store = KeyedStore()
        self.restore({})

    def process(self, records: pa.Table) -> Result:
        keys, times = keys_of(records, self.traits.key_fields), records[TIME]
        keyed, timed = valid_rows(keys), valid_rows(times)
        outputs: dict[str, pa.Table] = {}
        usable = keyed & timed
        if not usable.all():
            rows = np.flatnonzero(~usable)
            no_id = f"no {' or '.join(self.traits.key_fields)}"
            reasons = ["no time" if has_id else no_id for has_id in keyed[rows].tolist()]
            outputs["rejects"] = reject_rows(self._name, records, rows, reasons)
            records, keys, times = (each.filter(pa.array(usable)) for each in (records, keys, times))
        first = [self._is_first(key, time) for key, time in zip(keys.to_pylist(), times.to_pylist(), strict=True)]
        if all(first):
            return Result(records, outputs)
        mask = np.array(first, np.bool_)
        outputs["repeated"] = records.filter(pa.array(~mask))
        return Result(records.filter(pa.array(mask)), outputs)

    def ended(self, substream: Any) -> Result:
        if isinstance(substream, Watermark):
            while self._ends and (substream.time is None or self._ends[0][0] + self._within < substream.time):
                _, key = heapq.heappop(self._ends)  # the least time of the key
                self._store.put(key, (self._store.get(key) or b"")[_WIDTH:] or None)
        return Result(self._no_records)

    def save(self) -> KeyedSnapshot:
        return self._store.snapshot()

    def restore(self, state: State) -> None:
        self._store.restore(state)
        parts = self._store.snapshot().parts()
        self._ends = [(time, key) for part in parts for key, times in part.items() for time in _read(times or b"")]
        heapq.heapify(self._ends)

    def _is_first(self, key: str, time: int) -> bool:
        place, stored = 0, self._store.get(key)
        if stored is not None:
            times = _read(stored)
            place = bisect_left(times, time - self._within)
            if place < len(times) and times[place] <= time + self._within:
                return False
        before, after = (b"", b"") if stored is None else (stored[: place * _WIDTH], stored[place * _WIDTH :])
        self._store.put(key, before + _TIME.pack(time) + after)
        heapq.heappush(self._ends, (time, key))
        return True


def _read(times: bytes) -> memoryview[int]:
    return memoryview(times).cast("q")

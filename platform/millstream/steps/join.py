"""A step that joins the records of two streams by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from millstream.arrays import valid_rows
from millstream.config.durations import Duration
from millstream.config.pipeline import TO_ALL
from millstream.errors import ConfigError, StepFailed
from millstream.records import PATH, TIME, no_records
from millstream.state.keyed_state import KeyedSnapshot
from millstream.state.shard_limit import ShardLimit
from millstream.steps.broadcast_records import BroadcastRecords
from millstream.steps.column_checks import WrongInput
from millstream.steps.contracts import (
    Array,
    JoinStep,
    Output,
    Result,
    Scope,
    State,
    Traits,
    position_fields,
    rejects_schema,
)
from millstream.steps.joined_columns import JoinedColumns
from millstream.steps.keys import KeyFields, check_key_fields, coded, keys_of
from millstream.steps.reject_rows import positions, reject_rows
from millstream.steps.waiting_records import WaitingRecords
from millstream.substreams import Watermark
from millstream.substreams.windows import TumblingWindow

__all__ = ["Join"]

_GREATEST = 2**63 - 1
_POSITION = position_fields(pa.schema([pa.field(PATH, pa.binary())]))


class Join(BaseModel):
    """Joins the records of two streams that have the same key, at most `within` apart, or in the same window.

    `from` names the left and the right stream. A joined record has the fields of both, once those of the key; a field
    that both have is that of the left one, and the other is `right_` and its name (`right_right_`, if the left one has
    that too). It is a child of the record that completed it: the later one in step order, whose position and time it
    has. `_other` names the other one.

    `how: inner` makes joined records only. With `left`, the records of the left stream that were never joined are rows
    of the output `unmatched`, once the watermark has passed them by `within` (and `lateness`); with `outer`, those of
    both streams. Then a record leaves the state, so the state holds about `within` of both streams. A record that is
    older than the watermark, by more than `lateness`, is a row of `late`. Records without a key or without a time go
    into `rejects`.

    >>> texts = pa.table({"_rank": [0, 0], "_offset": [0, 1], "_time": [1, 8], "id": ["a", "b"], "text": ["x", "y"]})
    >>> labels = pa.table({"_rank": [1], "_offset": [0], "_time": [4], "id": ["a"], "label": ["sport"]})
    >>> step = Join(by="id", within="10us", how="left").build([texts.schema, labels.schema])
    >>> result = step.process([texts, labels], np.array([0, 1, 0]))
    >>> result.records.select(["_rank", "_offset", "_time", "id", "text", "label"]).to_pylist()
    [{'_rank': 1, '_offset': 0, '_time': 4, 'id': 'a', 'text': 'x', 'label': 'sport'}]
    >>> step.ended(Watermark(19)).outputs["unmatched"].select(["_offset", "id", "label"]).to_pylist()
    [{'_offset': 1, 'id': 'b', 'label': None}]
    """

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={TO_ALL: True})

    inputs: ClassVar[int] = 2
    shard_limit: ClassVar[str] = "most"

    type: Literal["join"] = "join"
    name: str | None = Field(default=None, description="The name in messages and in `rejects`; the type if unset.")
    by: KeyFields = Field(description="The text field, of both streams, with the key, or a list of fields.")
    within: Duration | None = Field(default=None, ge=0, le=2**61, description="The greatest distance of two times.")
    window: TumblingWindow | None = Field(default=None, description="Instead of `within`: both are in one window.")
    how: Literal["inner", "left", "outer"] = Field(
        default="inner", description="The stream whose records without a partner are rows of `unmatched`."
    )
    lateness: Duration = Field(default=0, ge=0, le=2**61, description="How long to wait for records that are late.")
    most: int = Field(
        default=10_000_000,
        ge=1,
        description="The most records that may wait at a time; each shard of the keys may hold an equal part of them, "
        "at least 100.",
        json_schema_extra={"may_change": True},
    )

    @model_validator(mode="after")
    def _check_bound(self) -> Join:
        if (self.within is None) == (self.window is None):
            message = "a join has either `within`, a duration, or `window`"
            raise ValueError(message)
        if self.window is not None and self.lateness:
            message = "write `lateness` into the `window`"
            raise ValueError(message)
        return self

    def build(self, records: Sequence[pa.Schema]) -> JoinStep:
        return self._build(records, to_all=False)

    def build_to_all(self, records: Sequence[pa.Schema]) -> JoinStep:
        return self._build(records, to_all=True)

    def not_to_all(self) -> tuple[str, str] | None:
        if self.how != "outer":
            return None
        message = "with `to: all`, no process knows which records of the second stream found no partner"
        return "how", f"{message}; write `how: left`, or leave `to: all` out"

    def _build(self, records: Sequence[pa.Schema], to_all: bool) -> JoinStep:
        name = self.name or self.type
        if len(records) != self.inputs:
            message = f"step {name!r}: a join reads two streams, and `from` names {len(records)}; name two, in a list"
            raise ConfigError(message)
        key = (self.by,) if isinstance(self.by, str) else self.by
        option = f"step {name!r}, `by`"
        for number, schema in enumerate(records):
            try:
                check_key_fields(key, schema, option)
            except ConfigError as error:
                raise WrongInput(option, str(error).removeprefix(f"{option}: "), number) from error
        return _JoinStep(name, self, key, JoinedColumns(name, key, records[0], records[1]), to_all)


class _JoinStep:
    def __init__(self, name: str, config: Join, key: tuple[str, ...], columns: JoinedColumns, to_all: bool) -> None:
        self._name, self._key, self._columns, self._most = name, key, columns, config.most
        self._size = None if config.window is None else config.window.size
        self._lateness = config.lateness if config.window is None else config.window.lateness
        bound = config.within or 0
        sides: dict[str, tuple[int, ...]] = {"inner": (), "left": (0,), "outer": (0, 1)}
        self._outer = sides[config.how]
        waits = bound if self._outer else 0
        held_back = self._lateness + (waits if self._size is None else self._size)
        self.traits = Traits(Scope.KEYED, ends=frozenset({"time"}), key=config.by, held_back=held_back, to_all=to_all)
        texts = [pa.field(field, pa.string()) for field in key]
        self._late = pa.schema([*position_fields(columns.inputs[0]), *texts])
        unmatched = [Output("unmatched", columns.made)] if self._outer else []
        rejects = Output("rejects", rejects_schema(columns.inputs[0]))
        self.outputs: Sequence[Output] = (*unmatched, Output("late", self._late), rejects)
        self._no_records = no_records(columns.made)
        kept = (columns.inputs, bound, self._places, bool(self._outer))
        self._broadcast = BroadcastRecords(*kept, key) if to_all else None
        self._waiting = WaitingRecords(*kept) if self._broadcast is None else self._broadcast
        self._limit = -_GREATEST

    def process(self, inputs: Sequence[pa.Table], order: Array) -> Result:
        tables = [self._columns.normal(side, table) for side, table in enumerate(inputs)]
        rows = [np.flatnonzero(order == side) for side in (0, 1)]
        keys: list[pa.DictionaryArray] = [coded(keys_of(table, self._key)) for table in tables]
        keyed, timed = (np.ones(len(order), np.bool_) for _ in range(2))
        places = np.zeros(len(order), np.int64)
        for table, here, key in zip(tables, rows, keys, strict=True):
            keyed[here] = valid_rows(key)
            timed[here] = valid_rows(table[TIME])
            places[here] = self._places(table)
        usable = keyed & timed
        late = usable & (places < self._limit)
        outputs: dict[str, pa.Table] = {}
        kept = usable & ~late
        reported = self._reported(tables[1], rows[1], ~kept)
        if (rejected := reported & ~usable).any():
            outputs["rejects"] = self._rejects(_merged(self._positions(tables), rows, rejected), keyed[rejected])
        if (passed := reported & late).any():
            outputs["late"] = self._late_rows(_merged(self._positions(tables), rows, passed))
        if not kept.all():
            chosen = [pa.array(kept[here]) for here in rows]
            tables = [table.filter(mask) for table, mask in zip(tables, chosen, strict=True)]
            keys = [coded(keys_of(table, self._key)) for table in tables]  # without the keys of other records
            order, places = order[kept], places[kept]
        return Result(self._join(tables, keys, order, places), outputs)

    def ended(self, substream: Any) -> Result:
        if not isinstance(substream, Watermark):
            return Result(self._no_records)
        self.resume(substream)
        unmatched = self._waiting.leave(self._limit)
        made = [self._columns.unmatched(side, unmatched[side]) for side in self._outer if unmatched[side].num_rows]
        if not made:
            return Result(self._no_records)
        return Result(self._no_records, {"unmatched": pa.concat_tables(made)})

    def resume(self, watermark: Watermark) -> None:
        if watermark.time is None:
            self._limit = _GREATEST
        else:
            time = watermark.time - self._lateness
            self._limit = max(self._limit, time if self._size is None else time // self._size)

    def own(self, owns: Callable[[int], bool]) -> None:
        if self._broadcast is not None:
            self._broadcast.own(owns)

    def save(self) -> KeyedSnapshot:
        return self._waiting.save()

    def restore(self, state: State) -> None:
        self._limit = -_GREATEST
        self._waiting.restore(state)

    def _join(
        self, tables: Sequence[pa.Table], keys: Sequence[pa.DictionaryArray], order: Array, places: Array
    ) -> pa.Table:
        """Add records that are neither rejected nor late, and join those that they complete."""
        if not len(order):
            return self._no_records
        codes = np.empty(len(order), np.int64)
        for side, key in enumerate(keys):
            numbers = self._waiting.codes_of(key.dictionary.to_pylist())
            codes[order == side] = numbers[key.indices.to_numpy()]
        matches = self._waiting.add(order.astype(np.int64), codes, places, tables)
        self._check_limit()
        if not len(matches.rows):
            return self._no_records
        left, right = self._waiting.take(0, matches.left), self._waiting.take(1, matches.right)
        return self._columns.joined(left, right, order[matches.rows] == 1, matches.numbers, self._broadcast is not None)

    def _reported(self, right: pa.Table, rows: Array, left_out: Array) -> Array:
        """The records that are left out and are rows here: of the right ones only those of own shards."""
        if self._broadcast is None or not left_out[rows].any():
            return left_out
        reported = left_out.copy()
        reported[rows] &= self._broadcast.owned(keys_of(right, self._key))
        return reported

    def _check_limit(self) -> None:
        limit = ShardLimit("most", self._most, self._waiting.shards)
        if (full := self._waiting.full_shard(limit.each)) is not None:
            message = (
                f"step {self._name!r} holds {full.records:,} records that wait for others {limit.describe(full.shard)}"
            )
            hint = "join within a shorter time, or raise `most` if the memory allows it"
            raise StepFailed(f"{message}; the key with the most is {full.key!r}; {hint}")

    def _places(self, records: pa.Table) -> Array:
        """The times of records, or the numbers of their windows; 0 for a record without a time."""
        times: Array = records[TIME].fill_null(0).to_numpy()
        return times if self._size is None else times // self._size

    def _positions(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """The positions and keys of the records, with one schema for both streams."""
        schema = pa.schema([*_POSITION, *(pa.field(name, pa.string()) for name in self._key)])
        return [table.select(schema.names).cast(schema) for table in tables]

    def _rejects(self, records: pa.Table, keyed: Array) -> pa.Table:
        no_key = f"no {' or '.join(self._key)}"
        reasons = ["no time" if has_key else no_key for has_key in keyed.tolist()]
        return reject_rows(self._name, records, range(records.num_rows), reasons)

    def _late_rows(self, records: pa.Table) -> pa.Table:
        position = positions(records, range(records.num_rows))
        fields = [records[field].cast(pa.string()) for field in self._key]
        return pa.Table.from_arrays([*position.columns, *fields], schema=self._late)


def _merged(tables: Sequence[pa.Table], rows: Sequence[Array], chosen: Array) -> pa.Table:
    """The chosen records of both streams in their order, with only the columns of positions and keys."""
    parts = [table.filter(pa.array(chosen[here])) for table, here in zip(tables, rows, strict=True)]
    order = np.argsort(np.concatenate([here[chosen[here]] for here in rows]))
    return pa.concat_tables(parts).take(pa.array(order))

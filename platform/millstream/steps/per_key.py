"""A step that calls a user's function with a separate state for each key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from millstream.config.durations import Duration
from millstream.config.partial_windows import MakesWindows
from millstream.records import TIME, no_records
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore, Storage, in_memory
from millstream.steps.child_changes import ChildChanges
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits, position_fields, rejects_schema
from millstream.steps.ended_rows import EndedRows
from millstream.steps.field_changes import Changes, FieldChanges, FieldNames
from millstream.steps.function_calls import FunctionCalls, Misuse, RecordRejected, describe_value
from millstream.steps.function_import import FunctionName, import_function
from millstream.steps.keys import KeyFields, check_key, key_of
from millstream.steps.reject_rows import positions
from millstream.steps.substream_ends import KeySubstreams
from millstream.substreams import Watermark

__all__ = ["PerKey"]


class PerKey(MakesWindows):
    """Follows each key through the records: a function gets a record and the last state that it returned for this key.

    The function gets a record's fields as a dict, and a state: None for the first record of a `key`, then the state
    that the function last returned for this key. The function returns a dict of the text fields to replace or add, as
    for `map`, and the new state: any JSON value (None, true and false, numbers, text, lists, dicts with text as keys).
    A key whose state is None is deleted and takes no memory. Records whose key is null go into `rejects`. A record on
    which the function raises an error does not change the state.

    This function adds the field `before`, the number of the author's earlier texts:

        def count(record, state):
            seen = state or 0
            return {"before": str(seen)}, seen + 1

    With `children: true`, the function returns a list instead of the dict, with a dict for each child of the record:
    the children are passed on instead of the record, as those of `flat_map`. For an empty list, nothing is passed on.

    `store: memory` is fastest, and suitable if all states fit into memory: each key takes about 120 bytes plus the text
    of the key and of its state. `store: rocksdb` keeps the states in the folder for temporary files (`TMPDIR`), which
    should be on a disk and not in memory; every start fills this folder from the newest checkpoint. Results and
    checkpoints are the same with both stores.

    With `ended`, another function gets each key when its substream has ended, once, with the last state: `idle` after
    the last record of the key, or `within` after the first, in event time; without both, when all sources have ended.
    It gets a dict of the key's fields, and the state, and returns a dict of the fields in `makes`, for a row of the
    output `ended`, or None for no row. The next record of the key begins with the state None. A record that comes when
    its substream has ended is a row of `late`. This function makes a row with the number of the author's texts:

        def close(key, state):
            return {"texts": str(state)}

    >>> import sys, types
    >>> rules = sys.modules["rules"] = types.ModuleType("rules")
    >>> rules.count = lambda record, state: ({"before": str(state or 0)}, (state or 0) + 1)
    >>> position = {"_rank": [0] * 4, "_offset": range(4), "_time": range(4)}
    >>> records = pa.table({**position, "author": ["ann", "bob", "ann", None]})
    >>> step = PerKey(key="author", function="rules:count", adds=["before"]).build(records.schema)
    >>> result = step.process(records)
    >>> result.records.select(["author", "before"]).to_pylist()
    [{'author': 'ann', 'before': '0'}, {'author': 'bob', 'before': '0'}, {'author': 'ann', 'before': '1'}]
    >>> result.outputs["rejects"]["reason"].to_pylist(), dict(step.save())
    (['no author'], {'ann': b'2', 'bob': b'1'})
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["per_key"] = "per_key"
    name: str | None = Field(default=None, description="The name in messages and in `rejects`; the type if unset.")
    key: KeyFields = Field(description="The text field whose value decides which state a record uses, or a list.")
    function: FunctionName = Field(
        description="The function: package.module:name.", json_schema_extra={"keeps_state": True}
    )
    adds: FieldNames = Field(
        default=(),
        description="The fields that the function adds; all are text.",
        json_schema_extra={"keeps_state": True},
    )
    children: bool = Field(
        default=False,
        description="The function returns a list of changes, for any number of children of the record.",
        json_schema_extra={"keeps_state": True},
    )
    on_error: Literal["fail", "reject"] = Field(
        default="fail",
        description="If the function raises an error: stop the run, or put the record into `rejects`.",
        json_schema_extra={"keeps_state": True},
    )
    deterministic: bool = Field(
        default=True,
        description="False if the results depend on more than the records: on clocks, on random numbers.",
        json_schema_extra={"keeps_state": True},
    )
    store: Literal["memory", "rocksdb"] = Field(
        default="memory",
        description="Where the states are kept during a run: rocksdb if they do not fit into memory.",
        json_schema_extra={"may_change": True},
    )

    ended: FunctionName | None = Field(default=None, description="The function that gets a key that has ended.")
    idle: Duration | None = Field(default=None, gt=0, le=2**62, description="The end, after the last record of a key.")
    within: Duration | None = Field(default=None, gt=0, le=2**62, description="The end, after its first record.")
    makes: FieldNames = Field(
        default=(),
        description="The fields of a row of `ended`, beside the key; all are text.",
        json_schema_extra={"keeps_state": True},
    )

    @model_validator(mode="after")
    def _check_ended(self) -> PerKey:
        given = [name for name in ("idle", "within", "makes") if getattr(self, name)]
        if given and self.ended is None:
            message = f"`{given[0]}` is for the function of `ended`; name one, or leave `{given[0]}` out"
            raise ValueError(message)
        return self

    @property
    def extra(self) -> str | None:
        """The extra with the package that stores the states."""
        return "rocksdb" if self.store == "rocksdb" else None

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        ends = frozenset({"time"}) if self.ended is not None else frozenset[str]()
        traits = Traits(
            Scope.KEYED,
            deterministic=self.deterministic,
            keeps_all=not self.children,
            ends=ends,
            key=self.key,
        )
        check_key(traits, records, f"step {name!r}, `key`")
        function = import_function(name, self.function)
        calls = FunctionCalls(name, self.function, function, "record", self.on_error == "reject")
        store = KeyedStore(_import_rocksdb() if self.store == "rocksdb" else in_memory)
        fields = FieldChanges(name, records, self.adds)
        changes = ChildChanges(fields) if self.children else fields
        if self.ended is None:
            return _PerKeyStep(traits, calls, changes, store, records)
        substreams = KeySubstreams(store, self.idle, self.within)
        until = self.partial_until
        rows = EndedRows(
            name,
            self.ended,
            import_function(name, self.ended, "ended"),
            traits.key_fields,
            self.makes,
            None if until is None else substreams.last_since(until),
        )
        return _EndingStep(traits, calls, changes, substreams, rows, records)


class _PerKeyStep:
    def __init__(
        self, traits: Traits, calls: FunctionCalls, changes: Changes, store: KeyedStore, records: pa.Schema
    ) -> None:
        self.traits = traits
        self.outputs = (Output("rejects", rejects_schema(records)),)
        self._key = traits.key_fields
        self._calls = calls
        self._changes = changes
        self._store = store
        self._no_records = changes.made(no_records(records), [])

    def process(self, records: pa.Table) -> Result:
        result = self._calls.run_each(records, self._call)
        return Result(self._changes.made(result.records, result.values), result.outputs)

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> KeyedSnapshot:
        return self._store.snapshot()

    def restore(self, state: State) -> None:
        self._store.restore(state)

    def _call(self, record: Mapping[str, Any]) -> Any:
        key = _key_in(record, self._key)
        before = self._store.get(key)
        change, after = _call_with_state(self._calls, self._changes, record, before)
        if after != before:
            self._store.put(key, after)
        return change


class _EndingStep:
    """The step of a config with `ended`."""

    def __init__(
        self,
        traits: Traits,
        calls: FunctionCalls,
        changes: Changes,
        substreams: KeySubstreams,
        rows: EndedRows,
        records: pa.Schema,
    ) -> None:
        self.traits = traits
        self._calls, self._changes, self._substreams, self._rows = calls, changes, substreams, rows
        key = [records.field(field) for field in traits.key_fields]
        self._late = pa.schema([*position_fields(records), *(pa.field(field.name, pa.string()) for field in key)])
        late = [Output("late", self._late)] if substreams.timed else []
        self.outputs = (rows.output, *late, Output("rejects", rejects_schema(records)))
        self._no_records = changes.made(no_records(records), [])

    def process(self, records: pa.Table) -> Result:
        times = iter(records[TIME].to_pylist())
        result = self._calls.run_each(records, lambda record: self._call(record, next(times)))
        made, outputs = result.records, dict(result.outputs)
        changes = [change for change in result.values if change is not None]
        if len(changes) < made.num_rows:
            kept = np.array([change is not None for change in result.values], np.bool_)
            outputs["late"] = self._late_rows(made.filter(pa.array(~kept)))
            made = made.filter(pa.array(kept))
        return Result(self._changes.made(made, changes), outputs, windows={"ended": self._rows.of([])[1]})

    def ended(self, substream: Any) -> Result:
        found = self._substreams.ended(substream) if isinstance(substream, Watermark) else []
        rows, windows = self._rows.of(found)
        return Result(self._no_records, {"ended": rows}, windows={"ended": windows})

    def resume(self, watermark: Watermark) -> None:
        self._substreams.resume(watermark)

    def save(self) -> KeyedSnapshot:
        return self._substreams.save()

    def restore(self, state: State) -> None:
        self._substreams.restore(state)

    def _call(self, record: Mapping[str, Any], time: int | None) -> Any:
        """The changes of the function; None if the record is late."""
        key = _key_in(record, self.traits.key_fields)
        if time is None and self._substreams.timed:
            raise RecordRejected("no time")
        found = self._substreams.open(key, time)
        if found is None:
            return None
        before = None if found.state is None else found.state.encode()
        change, after = _call_with_state(self._calls, self._changes, record, before)
        self._substreams.put(key, found, time, None if after is None else after.decode())
        return change

    def _late_rows(self, late: pa.Table) -> pa.Table:
        fields = [late[name].cast(pa.string()) for name in self.traits.key_fields]
        position = positions(late, range(late.num_rows))
        return pa.Table.from_arrays([*position.columns, *fields], schema=self._late)


def _key_in(record: Mapping[str, Any], fields: Sequence[str]) -> str:
    """The key of a record; `RecordRejected` if it has none."""
    key = record[fields[0]] if len(fields) == 1 else key_of([record[field] for field in fields])
    if key is None:
        raise RecordRejected(f"no {next(field for field in fields if record[field] is None)}")
    return key


def _call_with_state(
    calls: FunctionCalls, changes: Changes, record: Mapping[str, Any], before: bytes | None
) -> tuple[Any, bytes | None]:
    """Call the function with a record and the state of its key. Return its changes, and the new state."""
    returned = calls.function(dict(record), None if before is None else _READ(before.decode()))
    if not isinstance(returned, tuple) or len(returned) != 2:
        what = "a list of children" if isinstance(changes, ChildChanges) else "a dict of fields"
        raise Misuse(f"it returned {describe_value(returned)}, not a pair: {what}, and the new state")
    change = changes.read_one(record, returned[0])
    return change, None if returned[1] is None else _write_state(returned[1])


_WRITER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_READ = json.JSONDecoder().decode
"""Reads a state. `json.loads` does the same, and takes twice as long for short states."""


def _write_state(state: Any) -> bytes:
    """Write a state as JSON: equal states as equal bytes. Raise `Misuse` if reading the JSON gives another value."""
    try:
        text = _WRITER.encode(state)
        written, back = text.encode(), _READ(text)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "JSON values are numbers, text, lists, dicts with text as keys, true, false and None"
        what = f"it returned as state {describe_value(state)}, which is not a JSON value ({error})"
        raise Misuse(f"{what}; {hint}") from error
    if back != state:
        hint = "return a state that JSON preserves, such as lists for tuples and dicts with text as keys"
        what = f"it returned as state {describe_value(state)}, which JSON turns into {describe_value(back)}"
        raise Misuse(f"{what}; {hint}")
    return written


def _import_rocksdb() -> Storage:
    """Import RocksDB, only for a step that uses it."""
    from millstream.state.rocksdb_state import in_rocksdb

    return in_rocksdb

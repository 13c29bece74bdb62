"""A step that calls a user's function with a separate state for each key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.records import no_records
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore, Storage, in_memory
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits, rejects_schema
from millstream.steps.field_changes import FieldChanges, FieldNames
from millstream.steps.function_calls import FunctionCalls, Misuse, RecordRejected, describe_value
from millstream.steps.function_import import FunctionName, import_function
from millstream.steps.keys import check_key

__all__ = ["PerKey"]


class PerKey(BaseModel):
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

    `store: memory` is fastest, and suitable if all states fit into memory: each key takes about 120 bytes plus the text
    of the key and of its state. `store: rocksdb` keeps the states in the folder for temporary files (`TMPDIR`), which
    should be on a disk and not in memory; every start fills this folder from the newest checkpoint. Results and
    checkpoints are the same with both stores.

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
    key: str = Field(description="The text field whose value decides which state a record uses.")
    function: FunctionName = Field(description="The function: package.module:name.")
    adds: FieldNames = Field(default=(), description="The fields that the function adds; all are text.")
    on_error: Literal["fail", "reject"] = Field(
        default="fail",
        description="If the function raises an error: stop the run, or put the record into `rejects`.",
    )
    deterministic: bool = Field(
        default=True,
        description="False if the results depend on more than the records: on clocks, on random numbers.",
    )
    store: Literal["memory", "rocksdb"] = Field(
        default="memory",
        description="Where the states are kept during a run: rocksdb if they do not fit into memory.",
        json_schema_extra={"may_change": True},
    )

    @property
    def extra(self) -> str | None:
        """The extra with the package that stores the states."""
        return "rocksdb" if self.store == "rocksdb" else None

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        traits = Traits(Scope.KEYED, deterministic=self.deterministic, key=self.key)
        check_key(traits, records, f"step {name!r}, `key`")
        function = import_function(name, self.function)
        calls = FunctionCalls(name, self.function, function, "record", self.on_error == "reject")
        store = KeyedStore(_import_rocksdb() if self.store == "rocksdb" else in_memory)
        return _PerKeyStep(traits, calls, FieldChanges(name, records, self.adds), store, records)


class _PerKeyStep:
    def __init__(
        self, traits: Traits, calls: FunctionCalls, changes: FieldChanges, store: KeyedStore, records: pa.Schema
    ) -> None:
        self.traits = traits
        self.outputs = (Output("rejects", rejects_schema(records)),)
        self._key = str(traits.key)
        self._calls = calls
        self._changes = changes
        self._store = store
        self._no_records = changes.apply(no_records(records), {})

    def process(self, records: pa.Table) -> Result:
        result = self._calls.run_each(records, self._call)
        columns = self._changes.columns(result.records, result.values)
        return Result(self._changes.apply(result.records, columns), result.outputs)

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> KeyedSnapshot:
        return self._store.snapshot()

    def restore(self, state: State) -> None:
        self._store.restore(state)

    def _call(self, record: Mapping[str, Any]) -> Mapping[str, str | None]:
        key = record[self._key]
        if key is None:
            raise RecordRejected(f"no {self._key}")
        before = self._store.get(key)
        returned = self._calls.function(dict(record), None if before is None else json.loads(before))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise Misuse(f"it returned {describe_value(returned)}, not a pair: a dict of fields, and the new state")
        change = self._changes.read_one(record, returned[0])
        after = None if returned[1] is None else _write_state(returned[1])
        if after != before:
            self._store.put(key, after)
        return change


_WRITER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _write_state(state: Any) -> bytes:
    """Write a state as JSON: equal states as equal bytes. Raise `Misuse` if reading the JSON gives another value."""
    try:
        text = _WRITER.encode(state)
        written, back = text.encode(), json.loads(text)
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

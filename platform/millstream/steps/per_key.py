"""A step that calls a function of the user's with a memory of its own for each key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.errors import ConfigError
from millstream.state.keyed import Keyed, KeyedStore, Memory, Values
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits, rejects_schema
from millstream.steps.field_changes import Changes, FieldNames
from millstream.steps.function_calls import Calls, Misuse, Rejected, shown
from millstream.steps.function_import import FunctionName, imported
from millstream.steps.keys import check_key

__all__ = ["PerKey"]


class PerKey(BaseModel):
    """Follows each key through the records: a function gets a record, and the state it returned for that key before.

    The function gets a record's fields as a dict and a state: None at first, then what it returned last for a record
    with the same `key`. It returns a dict of the text fields to replace or add, as for `map`, and the new state: any
    JSON value (None, true and false, numbers, text, lists, dicts with text as keys). A state of None is forgotten, so
    what need not be remembered takes no room. Records whose key is null go into `rejects`. A record that the function
    raises on leaves the state as it was.

    For each author how many texts came before, in the field `before`:

        def count(record, state):
            seen = state or 0
            return {"before": str(seen)}, seen + 1

    `store: memory` is fastest, and right as long as all states fit into memory: about 120 bytes for each key beside its
    text and that of its state. `store: rocksdb` keeps them in the folder for temporary files (`TMPDIR`), which should
    not itself lie in memory; they are filled from the save at every start. Results and saves are the same.

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
    name: str | None = Field(default=None, description="What messages and `rejects` call this step; its type if unset.")
    key: str = Field(description="The field, text, whose value decides which state a record meets.")
    function: FunctionName = Field(description="The function: package.module:name.")
    adds: FieldNames = Field(default=(), description="The fields that the function adds; all are text.")
    on_error: Literal["fail", "reject"] = Field(
        default="fail", description="A record that the function raises on stops the run, or goes into `rejects`."
    )
    deterministic: bool = Field(
        default=True, description="Whether the same records always give the same result: false for clocks and dice."
    )
    store: Literal["memory", "rocksdb"] = Field(
        default="memory",
        description="Where the states are while it runs: rocksdb for more than fits into memory.",
        json_schema_extra={"may_change": True},
    )

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        traits = Traits(Scope.KEYED, deterministic=self.deterministic, key=self.key)
        check_key(traits, records, f"step {name!r}, `key`")
        calls = Calls(name, self.function, imported(name, self.function), "record", self.on_error == "reject")
        store = KeyedStore(_place(name) if self.store == "rocksdb" else Memory)
        return _Following(self.key, traits, calls, Changes(name, records, self.adds), store, records)


class _Following:
    outputs = (Output("rejects", rejects_schema()),)

    def __init__(
        self, key: str, traits: Traits, calls: Calls, changes: Changes, store: KeyedStore, records: pa.Schema
    ) -> None:
        self.traits = traits
        self._key = key
        self._calls = calls
        self._changes = changes
        self._store = store
        self._no_records = changes.made(records.empty_table(), {})

    def process(self, records: pa.Table) -> Result:
        done = self._calls.each(records, self._call)
        columns = self._changes.columns(done.records, done.values)
        return Result(self._changes.made(done.records, columns), done.outputs)

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> Keyed:
        return self._store.snapshot()

    def restore(self, state: State) -> None:
        self._store.restore(state)

    def _call(self, record: Mapping[str, Any]) -> Mapping[str, str | None]:
        key = record[self._key]
        if key is None:
            raise Rejected(f"no {self._key}")
        before = self._store.get(key)
        returned = self._calls.function(dict(record), None if before is None else json.loads(before))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise Misuse(f"it returned {shown(returned)}, not a pair: a dict of fields, and the new state")
        change = self._changes.of_one(record, returned[0])
        after = None if returned[1] is None else _written(returned[1])
        if after != before:
            self._store.put(key, after)
        return change


_WRITER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _written(state: Any) -> bytes:
    """A state as JSON, always in the same way; it must come back as it was."""
    try:
        text = _WRITER.encode(state)
        written, back = text.encode(), json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "numbers, text, lists, dicts with text as keys, true, false and None are"
        raise Misuse(f"it returned as state {shown(state)}, which is no JSON value ({error}); {hint}") from error
    if back != state:
        hint = "return what it can go on from, such as lists for tuples and dicts with text as keys"
        raise Misuse(f"it returned as state {shown(state)}, which as JSON would come back as {shown(back)}; {hint}")
    return written


def _place(step: str) -> Callable[[], Values]:
    """RocksDB, imported only where it is wanted."""
    try:
        from millstream.state.rocks import Rocks
    except ImportError as error:
        hint = "install the package rocksdict, or say `store: memory`"
        raise ConfigError(f"step {step!r}, `store`: rocksdb cannot be used ({error}); {hint}") from error
    return Rocks

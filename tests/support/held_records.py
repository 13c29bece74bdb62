"""Keyed steps that make rows in an order of their own: at a boundary, where they may, and among records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millstream.plugin import Entries, Output, Result, Scope, State, Step, StepConfig, Traits, rejects_schema

__all__ = ["Backwards", "Held"]


class Held(StepConfig):
    """Holds every other record of a key; `held`, `rejects` and `windows` have a row for each of them too."""

    by: str

    def build(self, records: pa.Schema) -> Holding:
        return Holding(records, self.by)


class Holding(Step):
    def __init__(self, records: pa.Schema, by: str) -> None:
        super().__init__(records)
        self.traits = Traits(Scope.KEYED, key=by, ends=frozenset({"time"}))
        self._windows = pa.schema([("_window", pa.int64()), ("key", pa.string()), (by, pa.string())])
        windows = Output("windows", self._windows, of="window", key=("key",))
        self.outputs = (Output("held", records), Output("rejects", rejects_schema(records)), windows)
        self._by = by
        self._held: dict[str, bytes] = {}

    def process(self, records: pa.Table) -> Result:
        passed = []
        for row in records.to_pylist():
            key = row[self._by]
            if key is None:
                continue
            held = json.loads(self._held.get(key, b"[]"))
            if held and held[-1] is None:  # the record before was passed on
                held[-1] = {**row, "_path": row["_path"].hex()} if "_path" in row else row
            else:
                passed.append(row)
                held.append(None)
            self._held[key] = json.dumps(held).encode()
        return self._result(passed)

    def ended(self, substream: Any) -> Result:
        rows = []
        for key in list(self._held):
            held = json.loads(self._held[key])
            for row in reversed([each for each in held if each is not None]):
                rows.append({**row, "_path": bytes.fromhex(row["_path"])} if "_path" in row else row)
            self._held[key] = json.dumps([each for each in held if each is None]).encode()
        made = self._result(rows)
        reasons = pa.table({"step": ["held"] * len(rows), "reason": [row[self._by] for row in rows]})
        position = made.records.select([name for name in rejects_schema(self.records).names if name[0] == "_"])
        columns = [*position.columns, *reasons.columns]
        rejects = pa.table(columns, [*position.column_names, *reasons.column_names])
        rejected = rejects.cast(self.outputs[1].schema)
        return Result(made.records, {**made.outputs, "held": made.records, "rejects": rejected})

    def _result(self, rows: list[Mapping[str, Any]]) -> Result:
        windows = [{"_window": row["_offset"] % 7, "key": str(row), self._by: row[self._by]} for row in rows]
        return Result(
            pa.Table.from_pylist(rows, self.records), {"windows": pa.Table.from_pylist(windows, self._windows)}
        )

    def save(self) -> State:
        return Entries(self._held)

    def restore(self, state: State) -> None:
        self._held = {key: bytes(state[key]) for key in sorted(state, reverse=True)}


class Backwards(StepConfig):
    """The rows of `back` are the records in reverse order."""

    def build(self, records: pa.Schema) -> Reversing:
        return Reversing(records)


class Reversing(Step):
    traits = Traits(Scope.KEYED, key="author")

    def __init__(self, records: pa.Schema) -> None:
        super().__init__(records)
        self.outputs = (Output("back", records),)

    def process(self, records: pa.Table) -> Result:
        return Result(records, {"back": records.take(pa.array(range(records.num_rows)[::-1], pa.int64()))})

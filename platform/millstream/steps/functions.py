"""Steps that call a function of the user's: `filter` drops records, `map` changes their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from millstream.steps.contracts import Output, Result, Scope, Step, Traits, rejects_schema
from millstream.steps.field_changes import Changes, FieldNames
from millstream.steps.function_calls import Calls, Misuse, shown
from millstream.steps.function_import import FunctionName, imported
from millstream.steps.stateless import StatelessStep

__all__ = ["Filter", "Map"]


class _Function(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(default=None, description="What messages and `rejects` call this step; its type if unset.")
    function: FunctionName = Field(description="The function: package.module:name.")
    per: Literal["record", "batch"] = Field(
        default="record", description="Whether the function gets one record (a dict), or many (a pyarrow.Table)."
    )
    on_error: Literal["fail", "reject"] = Field(
        default="fail", description="A record that the function raises on stops the run, or goes into `rejects`."
    )
    deterministic: bool = Field(
        default=True, description="Whether the same records always give the same result: false for clocks and dice."
    )

    def _calls(self, name: str) -> Calls:
        return Calls(name, self.function, imported(name, self.function), self.per, self.on_error == "reject")

    def _traits(self) -> Traits:
        scope = Scope.STATELESS
        return Traits(scope, ordered=False, deterministic=self.deterministic, idempotent=self.deterministic)


class Filter(_Function):
    """Keeps the records for which a function returns true.

    The function gets a record's fields as a dict and returns a bool; with `per: batch`, it gets many records as a
    `pyarrow.Table` and returns a mask (a boolean array). It sees the fields, not the columns whose names begin with
    an underscore. How many records a batch holds is not fixed, so each must be judged on its own.

    >>> import sys, types
    >>> rules = sys.modules["rules"] = types.ModuleType("rules")
    >>> rules.short = lambda record: len(record["text"]) < 10
    >>> records = pa.table({"_rank": [0, 0], "_offset": [0, 1], "_time": [5, 6], "text": ["a word", "many more words"]})
    >>> Filter(function="rules:short").build(records.schema).process(records).records["text"].to_pylist()
    ['a word']
    """

    type: Literal["filter"] = "filter"

    def build(self, records: pa.Schema) -> Step:
        return _FilterStep(records, self._calls(self.name or self.type), self._traits())


class Map(_Function):
    """Replaces text fields of the records, or adds new ones, with what a function returns.

    The function gets a record's fields as a dict and returns a dict of those to replace or add: text or None. Fields
    that it adds are declared in `adds`; one that it leaves out is null, and fields that it does not return stay as
    they are. With `per: batch`, it gets and returns a `pyarrow.Table` with as many rows. It sees the fields, not the
    columns whose names begin with an underscore. How many records a batch holds is not fixed, so each must be mapped
    on its own.

    >>> import sys, types
    >>> rules = sys.modules["rules"] = types.ModuleType("rules")
    >>> rules.first = lambda record: {"first": record["text"].split()[0]}
    >>> records = pa.table({"_rank": [0, 0], "_offset": [0, 1], "_time": [5, 6], "text": ["a word", ""]})
    >>> result = Map(function="rules:first", adds=["first"], on_error="reject").build(records.schema).process(records)
    >>> result.records.select(["text", "first"]).to_pylist()
    [{'text': 'a word', 'first': 'a'}]
    >>> result.outputs["rejects"]["reason"].to_pylist()
    ['IndexError: list index out of range']
    """

    type: Literal["map"] = "map"
    adds: FieldNames = Field(default=(), description="The fields that the function adds; all are text.")

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        return _MapStep(records, self._calls(name), self._traits(), Changes(name, records, self.adds))


class _FilterStep(StatelessStep):
    def __init__(self, records: pa.Schema, calls: Calls, traits: Traits) -> None:
        super().__init__(records)
        self.traits = traits
        self.outputs = _outputs(calls)
        self._calls = calls

    def process(self, records: pa.Table) -> Result:
        done = self._calls.run(records, _one_verdict, _verdicts)
        mask = done.values if isinstance(done.values, pa.Array) else pa.array(done.values, pa.bool_())
        return Result(done.records.filter(mask), done.outputs)


class _MapStep(StatelessStep):
    def __init__(self, records: pa.Schema, calls: Calls, traits: Traits, changes: Changes) -> None:
        super().__init__(changes.made(records.empty_table(), {}).schema)
        self.traits = traits
        self.outputs = _outputs(calls)
        self._calls = calls
        self._changes = changes

    def process(self, records: pa.Table) -> Result:
        done = self._calls.run(records, self._changes.of_one, self._changes.of_batch)
        columns = done.values if isinstance(done.values, dict) else self._changes.columns(done.records, done.values)
        return Result(self._changes.made(done.records, columns), done.outputs)


def _one_verdict(record: Mapping[str, Any], returned: Any) -> bool:
    if not isinstance(returned, bool | np.bool_):
        raise Misuse(f"it returned {shown(returned)}, not True or False")
    return bool(returned)


def _verdicts(fields: pa.Table, returned: Any) -> pa.Array:
    if isinstance(returned, np.ndarray) and returned.dtype == np.bool_ and returned.ndim == 1:
        returned = pa.array(returned)
    mask = returned.combine_chunks() if isinstance(returned, pa.ChunkedArray) else returned
    if not isinstance(mask, pa.BooleanArray) or len(mask) != fields.num_rows:
        what = f"{len(mask)} values of {mask.type}" if isinstance(mask, pa.Array) else shown(returned)
        raise Misuse(f"it returned {what}, not a mask: a boolean array of {fields.num_rows}")
    if mask.null_count:
        raise Misuse(f"its mask has a null for row {pc.index(mask.is_null(), True).as_py()}; return true or false")
    return mask


def _outputs(calls: Calls) -> Sequence[Output]:
    return [Output("rejects", rejects_schema())] if calls.rejects else []

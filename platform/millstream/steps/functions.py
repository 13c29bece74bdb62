"""Steps that call a user's function: `filter` drops records, `map` changes them, `flat_map` makes several of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from millstream.records import no_records
from millstream.steps.child_changes import ChildChanges
from millstream.steps.contracts import Output, Result, Scope, Step, Traits, rejects_schema
from millstream.steps.field_changes import Change, FieldChanges, FieldNames
from millstream.steps.function_calls import FunctionCalls, Misuse, describe_value
from millstream.steps.function_import import FunctionName, import_function
from millstream.steps.stateless import StatelessStep

__all__ = ["Filter", "FlatMap", "Map"]


_Per = Literal["record", "batch"]
_PER = "The function gets one record (a dict), or a batch of records (a pyarrow.Table)."


class _FunctionConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(default=None, description="The name in messages and in `rejects`; the type if unset.")
    function: FunctionName = Field(description="The function: package.module:name.")
    on_error: Literal["fail", "reject"] = Field(
        default="fail",
        description="If the function raises an error: stop the run, or put the record into `rejects`.",
    )
    deterministic: bool = Field(
        default=True,
        description="False if the results depend on more than the records: on clocks, on random numbers.",
    )

    def _calls(self, name: str, per: _Per = "record") -> FunctionCalls:
        function = import_function(name, self.function)
        return FunctionCalls(name, self.function, function, per, self.on_error == "reject")

    def _traits(self, *, keeps_all: bool = False) -> Traits:
        same = self.deterministic
        return Traits(Scope.STATELESS, ordered=False, deterministic=same, idempotent=same, keeps_all=keeps_all)


class Filter(_FunctionConfig):
    """Keeps the records for which a function returns true.

    The function gets a record's fields as a dict and returns a bool. With `per: batch`, the function gets many records
    as a `pyarrow.Table` and returns a mask (a boolean array). The function gets the fields, without the columns whose
    names begin with an underscore. Batches have any number of records, so the verdict on a record must not depend on
    the other records of the batch.

    With `rest: true`, the other records are the rows of the output `rest`.

    >>> import sys, types
    >>> rules = sys.modules["rules"] = types.ModuleType("rules")
    >>> rules.short = lambda record: len(record["text"]) < 10
    >>> records = pa.table({"_rank": [0, 0], "_offset": [0, 1], "_time": [5, 6], "text": ["a word", "many more words"]})
    >>> Filter(function="rules:short").build(records.schema).process(records).records["text"].to_pylist()
    ['a word']
    """

    type: Literal["filter"] = "filter"
    per: _Per = Field(default="record", description=_PER)
    rest: bool = Field(default=False, description="Make the output `rest`: the records that the function refuses.")

    def build(self, records: pa.Schema) -> Step:
        return _FilterStep(records, self._calls(self.name or self.type, self.per), self._traits(), self.rest)


class Map(_FunctionConfig):
    """Replaces text fields of the records, or adds new ones, with what a function returns.

    The function gets a record's fields as a dict and returns a dict of the fields to replace or add: text or None. The
    fields to add are declared in `adds`. An added field that the function does not return is null; other fields that
    the function does not return keep their values. With `per: batch`, the function gets and returns a `pyarrow.Table`
    with the same number of rows. The function gets the fields, without the columns whose names begin with an
    underscore. Batches have any number of records, so the result for a record must not depend on the other records of
    the batch.

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
    per: _Per = Field(default="record", description=_PER)
    adds: FieldNames = Field(default=(), description="The fields that the function adds; all are text.")

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        traits = self._traits(keeps_all=True)
        return _MapStep(records, self._calls(name, self.per), traits, FieldChanges(name, records, self.adds))


class FlatMap(_FunctionConfig):
    """Makes several records, or none, of each record: its children.

    The function gets a record's fields as a dict and returns a list with a dict for each child: the text fields in
    which the child differs from its record, as for `map`. The fields to add are declared in `adds`. A child has the
    position and the time of its record, and a path: the third child of the third one of a record has the `_path` 2.2.

    >>> import sys, types
    >>> rules = sys.modules["rules"] = types.ModuleType("rules")
    >>> rules.words = lambda record: [{"word": word} for word in record["text"].split()]
    >>> records = pa.table({"_rank": [0, 0], "_offset": [7, 8], "_time": [5, 6], "text": ["two words", ""]})
    >>> made = FlatMap(function="rules:words", adds=["word"]).build(records.schema).process(records).records
    >>> made.select(["_offset", "text", "word"]).to_pylist()
    [{'_offset': 7, 'text': 'two words', 'word': 'two'}, {'_offset': 7, 'text': 'two words', 'word': 'words'}]
    """

    type: Literal["flat_map"] = "flat_map"
    adds: FieldNames = Field(default=(), description="The fields that the function adds; all are text.")

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        children = ChildChanges(FieldChanges(name, records, self.adds))
        return _FlatMapStep(records, self._calls(name), self._traits(), children)


class _FilterStep(StatelessStep):
    def __init__(self, records: pa.Schema, calls: FunctionCalls, traits: Traits, rest: bool) -> None:
        super().__init__(records)
        self.traits = traits
        self.outputs = [*_outputs(calls, records), *([Output("rest", records)] if rest else [])]
        self._calls = calls
        self._rest = rest

    def process(self, records: pa.Table) -> Result:
        result = self._calls.run(records, _read_verdict, _read_mask)
        mask = result.values if isinstance(result.values, pa.Array) else pa.array(result.values, pa.bool_())
        kept = result.records.filter(mask)
        if not self._rest or kept.num_rows == result.records.num_rows:
            return Result(kept, result.outputs)
        return Result(kept, {**result.outputs, "rest": result.records.filter(pc.invert(mask))})


class _MapStep(StatelessStep):
    def __init__(self, records: pa.Schema, calls: FunctionCalls, traits: Traits, changes: FieldChanges) -> None:
        super().__init__(changes.apply(no_records(records), {}).schema)
        self.traits = traits
        self.outputs = _outputs(calls, records)
        self._calls = calls
        self._changes = changes

    def process(self, records: pa.Table) -> Result:
        result = self._calls.run(records, self._changes.read_one, self._changes.read_batch)
        values = result.values
        columns = values if isinstance(values, dict) else self._changes.columns(result.records, values)
        return Result(self._changes.apply(result.records, columns), result.outputs)


class _FlatMapStep(StatelessStep):
    def __init__(self, records: pa.Schema, calls: FunctionCalls, traits: Traits, children: ChildChanges) -> None:
        super().__init__(children.made(no_records(records), []).schema)
        self._calls = calls
        self._children = children
        self.traits = traits
        self.outputs = _outputs(calls, records)

    def process(self, records: pa.Table) -> Result:
        result = self._calls.run_each(records, self._call)
        return Result(self._children.made(result.records, result.values), result.outputs)

    def _call(self, record: Mapping[str, Any]) -> Sequence[Change]:
        return self._children.read_one(record, self._calls.function(dict(record)))


def _read_verdict(record: Mapping[str, Any], returned: Any) -> bool:
    if not isinstance(returned, bool | np.bool_):
        raise Misuse(f"it returned {describe_value(returned)}, not True or False")
    return bool(returned)


def _read_mask(fields: pa.Table, returned: Any) -> pa.Array:
    if isinstance(returned, np.ndarray) and returned.dtype == np.bool_ and returned.ndim == 1:
        returned = pa.array(returned)
    mask = returned.combine_chunks() if isinstance(returned, pa.ChunkedArray) else returned
    if not isinstance(mask, pa.BooleanArray) or len(mask) != fields.num_rows:
        what = f"{len(mask)} values of {mask.type}" if isinstance(mask, pa.Array) else describe_value(returned)
        raise Misuse(f"it returned {what}, not a mask: a boolean array of {fields.num_rows}")
    if mask.null_count:
        raise Misuse(f"its mask has a null for row {pc.index(mask.is_null(), True).as_py()}; return true or false")
    return mask


def _outputs(calls: FunctionCalls, records: pa.Schema) -> Sequence[Output]:
    return [Output("rejects", rejects_schema(records))] if calls.rejects else []

"""Steps that call a function of the user's: `filter` drops records, `map` changes their fields."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from millstream.config.plugins import nearest
from millstream.errors import ConfigError
from millstream.steps.calls import Calls, Misuse
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits, rejects_schema

__all__ = ["Filter", "Map"]


def _function_name(text: str) -> str:
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        message = "a function is written package.module:name"
        raise ValueError(message)
    return text


def _field_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not name or name.startswith("_"):
            message = f"{name!r} cannot be a field: it must not be empty or begin with an underscore"
            raise ValueError(message)
        if names.count(name) > 1:
            message = f"{name!r} is there twice"
            raise ValueError(message)
    return names


class _Function(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(default=None, description="What messages and `rejects` call this step; its type if unset.")
    function: Annotated[str, AfterValidator(_function_name)] = Field(description="The function: package.module:name.")
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
        return Calls(name, self.function, _imported(name, self.function), self.per, self.on_error == "reject")

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
        return _Filtering(self._calls(self.name or self.type), self._traits(), records)


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
    adds: Annotated[tuple[str, ...], AfterValidator(_field_names)] = Field(
        default=(), description="The fields that the function adds; all are text."
    )

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        for added in self.adds:
            if added in records.names:
                message = (
                    f"step {name!r}, `adds`: the records have a field {added!r} already; "
                    "leave it out to replace that one, or choose another name"
                )
                raise ConfigError(message)
        return _Mapping(self._calls(name), self._traits(), records, self.adds)


class _Filtering:
    def __init__(self, calls: Calls, traits: Traits, records: pa.Schema) -> None:
        self.traits = traits
        self.outputs = _outputs(calls)
        self._calls = calls
        self._no_records = records.empty_table()

    def process(self, records: pa.Table) -> Result:
        done = self._calls.run(records, _one_verdict, _verdicts)
        mask = done.values if isinstance(done.values, pa.Array) else pa.array(done.values, pa.bool_())
        return Result(done.records.filter(mask), done.outputs)

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        pass


class _Mapping:
    def __init__(self, calls: Calls, traits: Traits, records: pa.Schema, adds: tuple[str, ...]) -> None:
        self.traits = traits
        self.outputs = _outputs(calls)
        self._calls = calls
        self._adds = adds
        self._given = {field.name: field.type for field in records}
        self._no_records = self._changed(records.empty_table(), {})

    def process(self, records: pa.Table) -> Result:
        done = self._calls.run(records, self._one_change, self._changes)
        columns = done.values if isinstance(done.values, dict) else self._columns(done.records, done.values)
        return Result(self._changed(done.records, columns), done.outputs)

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        pass

    def _changed(self, records: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
        for name, column in columns.items():
            if name in self._given:
                records = records.set_column(records.column_names.index(name), records.field(name), column)
        for name in self._adds:
            column = columns.get(name)
            added = column if column is not None else pa.nulls(records.num_rows, pa.string())
            records = records.append_column(pa.field(name, pa.string()), added)
        return records

    def _columns(self, records: pa.Table, changes: Sequence[Mapping[str, str | None]]) -> dict[str, pa.Array]:
        columns = {}
        for name in sorted({name for change in changes for name in change}):
            before = records[name].to_pylist() if name in self._given else [None] * len(changes)
            after = [change.get(name, old) for change, old in zip(changes, before, strict=True)]
            columns[name] = pa.array(after, self._given.get(name, pa.string()))
        return columns

    def _one_change(self, record: Mapping[str, Any], returned: Any) -> Mapping[str, str | None]:
        if not isinstance(returned, Mapping):
            raise Misuse(f"it returned {_shown(returned)}, not a dict of the fields to replace or add")
        change = {}
        for name, value in returned.items():
            if self._is_text(name):
                if value is not None and not isinstance(value, str):
                    raise Misuse(
                        f"it returned {_shown(value)} for {name!r}; fields are text, so return str(...) or None"
                    )
                (value or "").encode()  # text that is not UTF-8 is the record's error, found here
                change[name] = value
            elif value is not record[name] and value != record[name]:
                raise Misuse(f"it changed {name!r}, which is {self._given[name]}; a map replaces text fields only")
        return change

    def _changes(self, fields: pa.Table, returned: Any) -> dict[str, pa.ChunkedArray]:
        if not isinstance(returned, pa.Table) or returned.num_rows != fields.num_rows:
            shown = f"{returned.num_rows} rows" if isinstance(returned, pa.Table) else _shown(returned)
            raise Misuse(f"it returned {shown}, not a pyarrow.Table of {fields.num_rows} rows")
        columns = {}
        for name in returned.column_names:
            column = returned[name]
            if self._is_text(name):
                if not (_text(column.type) or pa.types.is_null(column.type)):
                    raise Misuse(f"it returned {column.type} for {name!r}; fields are text, so cast it to string")
                columns[name] = column.cast(self._given.get(name, pa.string()))
            elif not column.equals(fields[name]):
                raise Misuse(f"it changed {name!r}, which is {self._given[name]}; a map replaces text fields only")
        return columns

    def _is_text(self, name: Any) -> bool:
        """Whether this field is one that a map may return; `Misuse` if it is none that was declared."""
        if name in self._adds:
            return True
        if name not in self._given or str(name).startswith("_"):
            raise Misuse(f"it returned a field {name!r}, which the records do not have; declare it in `adds`")
        return _text(self._given[name])


def _one_verdict(record: Mapping[str, Any], returned: Any) -> bool:
    if not isinstance(returned, bool | np.bool_):
        raise Misuse(f"it returned {_shown(returned)}, not True or False")
    return bool(returned)


def _verdicts(fields: pa.Table, returned: Any) -> pa.Array:
    if isinstance(returned, np.ndarray) and returned.dtype == np.bool_ and returned.ndim == 1:
        returned = pa.array(returned)
    mask = returned.combine_chunks() if isinstance(returned, pa.ChunkedArray) else returned
    if not isinstance(mask, pa.BooleanArray) or len(mask) != fields.num_rows:
        shown = f"{len(mask)} values of {mask.type}" if isinstance(mask, pa.Array) else _shown(returned)
        raise Misuse(f"it returned {shown}, not a mask: a boolean array of {fields.num_rows}")
    if mask.null_count:
        raise Misuse(f"its mask has a null for row {pc.index(mask.is_null(), True).as_py()}; return true or false")
    return mask


def _outputs(calls: Calls) -> Sequence[Output]:
    return [Output("rejects", rejects_schema())] if calls.rejects else []


def _text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _imported(step: str, function: str) -> Callable[[Any], Any]:
    where = f"step {step!r}, `function`"
    module_name, _, name = function.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            hint = "install its package, or put its folder on PYTHONPATH"
            raise ConfigError(f"{where}: there is no module {error.name!r}; {hint}") from error
        raise ConfigError(f"{where}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    place = module_name
    for part in name.split("."):
        if not hasattr(found, part):
            meant = nearest(part, dir(found))
            hint = f"did you mean {meant!r}?" if meant else "is it spelt as it is defined there?"
            raise ConfigError(f"{where}: {place} has no {part!r}; {hint}")
        found, place = getattr(found, part), f"{place}.{part}"
    if not callable(found):
        raise ConfigError(f"{where}: {function} is no function but {_shown(found)}")
    return found  # type: ignore[no-any-return]

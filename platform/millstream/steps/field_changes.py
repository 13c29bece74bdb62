"""Changes of records by a user's function: the text fields that the function replaces or adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import pyarrow as pa
from pydantic import AfterValidator

from millstream.errors import ConfigError
from millstream.steps.function_calls import Misuse, describe_value

__all__ = ["Change", "Changes", "FieldChanges", "FieldNames"]


def _field_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not name or name.startswith("_"):
            message = f"{name!r} cannot be a field: it must not be empty or begin with an underscore"
            raise ValueError(message)
        if names.count(name) > 1:
            message = f"{name!r} is listed twice"
            raise ValueError(message)
    return names


FieldNames = Annotated[tuple[str, ...], AfterValidator(_field_names)]
"""The names, in a config, of the fields that a function adds."""

Change = Mapping[str, str | None]
"""The fields of a record that a function changed, with their new values."""


class Changes(Protocol):
    """Checks what a function returned for a record, and makes the records that a step passes on."""

    def read_one(self, record: Mapping[str, Any], returned: Any) -> Any: ...

    def made(self, records: pa.Table, changes: Sequence[Any]) -> pa.Table: ...


class FieldChanges:
    """Checks and applies the changes of a function to records of this schema, to which the function `adds` fields.

    >>> records = pa.table({"text": ["a word", "two"]})
    >>> changes = FieldChanges("first", records.schema, ["first"])
    >>> change = changes.read_one({"text": "a word"}, {"first": "a"})
    >>> changes.made(records, [change, {"text": "2"}]).to_pylist()
    [{'text': 'a word', 'first': 'a'}, {'text': '2', 'first': None}]
    """

    def __init__(self, step: str, records: pa.Schema, adds: Sequence[str]) -> None:
        for added in adds:
            if added in records.names:
                message = (
                    f"step {step!r}, `adds`: the records have a field {added!r} already; "
                    "remove it from `adds` to replace that field, or choose another name"
                )
                raise ConfigError(message)
        self._adds = tuple(adds)
        self._given = {field.name: field.type for field in records}
        self._texts = {  # the fields that the function may change
            *self._adds,
            *(name for name, kind in self._given.items() if not name.startswith("_") and _is_text(kind)),
        }

    def read_one(self, record: Mapping[str, Any], returned: Any) -> Change:
        """Check the value that the function returned for one record, and return the changed fields."""
        if not isinstance(returned, Mapping):
            raise Misuse(f"it returned {describe_value(returned)}, not a dict of the fields to replace or add")
        change = {}
        for name, value in returned.items():
            if name in self._texts:
                if value is not None and not isinstance(value, str):
                    raise Misuse(
                        f"it returned {describe_value(value)} for {name!r}; fields are text, so return str(...) or None"
                    )
                (value or "").encode()  # text that is not UTF-8 raises here, as an error of the record
                change[name] = value
            elif value is not record[self._given_name(name)] and value != record[name]:
                raise Misuse(f"it changed {name!r}, which is {self._given[name]}; it may replace text fields only")
        return change

    def read_batch(self, fields: pa.Table, returned: Any) -> dict[str, pa.ChunkedArray]:
        """Check the table that the function returned for a batch, and return the changed columns."""
        if not isinstance(returned, pa.Table) or returned.num_rows != fields.num_rows:
            what = f"{returned.num_rows} rows" if isinstance(returned, pa.Table) else describe_value(returned)
            raise Misuse(f"it returned {what}, not a pyarrow.Table of {fields.num_rows} rows")
        columns = {}
        for name in returned.column_names:
            column = returned[name]
            if name in self._texts:
                if not (_is_text(column.type) or pa.types.is_null(column.type)):
                    raise Misuse(f"it returned {column.type} for {name!r}; fields are text, so cast it to string")
                columns[name] = column.cast(self._given.get(name, pa.string()))
            elif not column.equals(fields[self._given_name(name)]):
                raise Misuse(f"it changed {name!r}, which is {self._given[name]}; it may replace text fields only")
        return columns

    def columns(self, records: pa.Table, changes: Sequence[Change]) -> dict[str, pa.Array]:
        """Combine the changes of single records into one column for each changed field."""
        columns = {}
        for name in sorted({name for change in changes for name in change}):
            before = records[name].to_pylist() if name in self._given else [None] * len(changes)
            after = [change.get(name, old) for change, old in zip(changes, before, strict=True)]
            columns[name] = pa.array(after, self._given.get(name, pa.string()))
        return columns

    def made(self, records: pa.Table, changes: Sequence[Change]) -> pa.Table:
        """These records with these changes, one for each record."""
        return self.apply(records, self.columns(records, changes))

    def apply(self, records: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
        """Replace these columns of the records, and append all added fields."""
        for name, column in columns.items():
            if name in self._given:
                records = records.set_column(records.column_names.index(name), records.field(name), column)
        for name in self._adds:
            column = columns.get(name)
            added = column if column is not None else pa.nulls(records.num_rows, pa.string())
            records = records.append_column(pa.field(name, pa.string()), added)
        return records

    def _given_name(self, name: Any) -> str:
        """The name of a field of the records; `Misuse` if they have no such field."""
        if name not in self._given or str(name).startswith("_"):
            raise Misuse(f"it returned a field {name!r}, which the records do not have; declare it in `adds`")
        return str(name)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

"""Checks of a step's result against the outputs and the columns that the step has declared."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from millstream.errors import StepFailed
from millstream.steps.contracts import Output, Result

__all__ = ["check_result", "plain_type"]


def check_result(step: str, result: Result, made: pa.Schema, outputs: Iterable[Output]) -> None:
    """Refuse columns and outputs that the step has not declared; `made` is the schema of its records.

    >>> result = Result(pa.table({"text": ["a"]}), {"words": pa.table({"word": ["a"]})})
    >>> check_result("split", result, pa.schema([("text", pa.string())]), [])
    Traceback (most recent call last):
    ...
    millstream.errors.StepFailed: step 'split' made rows for the output 'words', which it has not declared in `outputs`
    """
    _check(f"step {step!r} made records", result.records.schema, made)
    declared = {output.name: output.schema for output in outputs}
    for name, rows in result.outputs.items():
        if not rows.num_rows:
            continue
        if name not in declared:
            message = f"step {step!r} made rows for the output {name!r}, which it has not declared in `outputs`"
            raise StepFailed(message)
        _check(f"step {step!r} made rows for the output {name!r}", rows.schema, declared[name])


def _check(subject: str, actual: pa.Schema, declared: pa.Schema) -> None:
    if actual.equals(declared):
        return
    for name in declared.names:
        if name not in actual.names:
            raise StepFailed(f"{subject} without the column {name!r}, which it has declared")
    for column in actual:
        if column.name not in declared.names:
            raise StepFailed(f"{subject} with the column {column.name!r}, which it has not declared")
        kind = declared.field(column.name).type
        if plain_type(column.type) != plain_type(kind):
            raise StepFailed(f"{subject} whose column {column.name!r} is {column.type}, and it has declared {kind}")


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without its encoding in memory: dictionary and large types become plain types.

    >>> plain_type(pa.dictionary(pa.int32(), pa.large_string()))
    DataType(string)
    """
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    return kind

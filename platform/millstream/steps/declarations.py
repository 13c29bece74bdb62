"""Checks of a step's result against the outputs and the columns that the step has declared, and of its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from millstream.errors import StepFailed
from millstream.state.dirty_rows import ArraySnapshot
from millstream.state.keyed_state import KeyedSnapshot
from millstream.steps.contracts import Output, Result

__all__ = ["check_result", "check_state", "plain_type"]


def check_result(step: str, result: object, made: pa.Schema, outputs: Iterable[Output]) -> None:
    """Refuse columns and outputs that the step has not declared; `made` is the schema of its records.

    >>> result = Result(pa.table({"text": ["a"]}), {"words": pa.table({"word": ["a"]})})
    >>> check_result("split", result, pa.schema([("text", pa.string())]), [])
    Traceback (most recent call last):
    ...
    millstream.errors.StepFailed: step 'split' made rows for the output 'words', which it has not declared in `outputs`
    """
    if not isinstance(result, Result):
        message = f"step {step!r}: `process` returns a value of the type {type(result).__name__}; return a `Result`"
        raise StepFailed(message)
    _check(f"step {step!r} made records", result.records.schema, made)
    declared = {output.name: output.schema for output in outputs}
    for name, rows in result.outputs.items():
        if not rows.num_rows:
            continue
        if name not in declared:
            message = f"step {step!r} made rows for the output {name!r}, which it has not declared in `outputs`"
            raise StepFailed(message)
        _check(f"step {step!r} made rows for the output {name!r}", rows.schema, declared[name])


def check_state(subject: str, state: object) -> None:
    """Refuse a state that `save` returned, if it has other values than arrays and bytes.

    >>> check_state("the model M", {"counts": np.zeros(2), "names": b"[]"})
    >>> check_state("the model M", {"n": [0, 0]})
    Traceback (most recent call last):
    ...
    millstream.errors.StepFailed: the model M saves a value of the type list as 'n'; save arrays of numbers, or bytes
    """
    if isinstance(state, KeyedSnapshot):
        return
    if not isinstance(state, Mapping):
        message = f"{subject} saves {_described(state)}; `save` returns a dict of arrays and bytes by name"
        raise StepFailed(message)
    for name, value in state.items():
        if not isinstance(name, str):
            message = f"{subject} saves {_described(value)} as {name!r}; the names in a state are texts"
            raise StepFailed(message)
        if isinstance(value, bytes):
            continue
        if not isinstance(value, np.ndarray | ArraySnapshot) or value.dtype.hasobject:
            message = f"{subject} saves {_described(value)} as {name!r}; save arrays of numbers, or bytes"
            raise StepFailed(message)


def _described(value: object) -> str:
    return (
        "an array of Python objects" if isinstance(value, np.ndarray) else f"a value of the type {type(value).__name__}"
    )


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

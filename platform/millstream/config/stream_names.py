"""The names of streams in a config: the value of a step's `from`, and the keys of `sinks`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError

__all__ = ["READS", "READS_SCHEMA", "STREAM"]

STREAM = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}([.][A-Za-z0-9][A-Za-z0-9_-]{0,63})?$"
"""The names of streams: of a source or a step, or `step.output`."""


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _each_once(names: list[str]) -> list[str]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"the stream {twice!r} is named twice; a step reads a stream once"
        raise PydanticCustomError("refused", "{message}", {"message": message})
    return names


READS: TypeAdapter[list[str]] = TypeAdapter(
    Annotated[
        list[Annotated[str, Field(pattern=STREAM)]],
        Field(min_length=1),
        BeforeValidator(_as_list),
        AfterValidator(_each_once),
    ]
)
"""Reads the value of `from`.

>>> READS.validate_python("news"), READS.validate_python(["news", "classify.predictions"])
(['news'], ['news', 'classify.predictions'])
"""

_NAME: dict[str, Any] = {"type": "string", "pattern": STREAM}
READS_SCHEMA = {
    "anyOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True}],
    "description": "The stream that the step reads, or a list of streams: a source, a step, or `step.output`. "
    "Default: the first step reads all sources, and every other step reads the step before it.",
}
"""The JSON Schema of `from`."""

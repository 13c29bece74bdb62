"""The names of streams in a config: the value of a step's `from`, and the keys of `sinks`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticCustomError

__all__ = ["READS", "READS_SCHEMA", "READS_TO_ALL_SCHEMA", "STREAM", "StreamToAll", "read_errors"]

STREAM = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}([.][A-Za-z0-9][A-Za-z0-9_-]{0,63})?$"
"""The names of streams: of a source or a step, or `step.output`."""


_NAMED, _TO_ALL = "a name", "a stream to all"


class StreamToAll(BaseModel):
    """A stream whose records go to all processes that share a step's keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stream: str = Field(pattern=STREAM)
    to: Literal["all"]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str | Mapping | StreamToAll) else value


def _each_once(streams: list[str | StreamToAll]) -> list[str | StreamToAll]:
    names = [each if isinstance(each, str) else each.stream for each in streams]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"the stream {twice!r} is named twice; a step reads a stream once"
        raise PydanticCustomError("refused", "{message}", {"message": message})
    return streams


def _kind(value: object) -> str:
    return _TO_ALL if isinstance(value, Mapping | StreamToAll) else _NAMED


READS: TypeAdapter[list[str | StreamToAll]] = TypeAdapter(
    Annotated[
        list[
            Annotated[
                Annotated[str, Field(pattern=STREAM), Tag(_NAMED)] | Annotated[StreamToAll, Tag(_TO_ALL)],
                Discriminator(_kind),
            ]
        ],
        Field(min_length=1),
        BeforeValidator(_as_list),
        AfterValidator(_each_once),
    ]
)
"""Reads the value of `from`.

>>> READS.validate_python("news"), READS.validate_python(["news", "classify.predictions"])
(['news'], ['news', 'classify.predictions'])
>>> READS.validate_python(["orders", {"stream": "rates", "to": "all"}])
['orders', StreamToAll(stream='rates', to='all')]
"""


def read_errors(wrong: ValidationError) -> list[ErrorDetails]:
    """The errors in a value of `from`, with key paths of the config."""
    return [_placed(error) for error in wrong.errors()]


def _placed(error: ErrorDetails) -> ErrorDetails:
    where = tuple(part for part in error["loc"] if part not in (_NAMED, _TO_ALL))
    if error["type"] != "missing" or where[-1:] != ("to",):
        return {**error, "loc": where}
    name = error["input"].get("stream", "NAME")
    message = f"only the second stream of a `join` takes a mapping, with `to: all`; write the name alone: `{name}`"
    return {**error, "type": "refused", "loc": where[:-1], "msg": message}


_NAME: dict[str, Any] = {"type": "string", "pattern": STREAM}
_EDGE: dict[str, Any] = {
    "type": "object",
    "properties": {"stream": _NAME, "to": {"const": "all"}},
    "required": ["stream", "to"],
    "additionalProperties": False,
    "description": "Only for the second stream: each of several workers gets all of its records.",
}
_LIST: dict[str, Any] = {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True}
READS_SCHEMA: dict[str, Any] = {
    "anyOf": [_NAME, _LIST],
    "description": "The stream that the step reads, or a list of streams: a source, a step, or `step.output`. "
    "Default: the first step reads all sources, and every other step reads the step before it.",
}
"""The JSON Schema of `from`."""
READS_TO_ALL_SCHEMA: dict[str, Any] = {
    **READS_SCHEMA,
    "anyOf": [_NAME, {**_LIST, "items": {"anyOf": [_NAME, _EDGE]}}],
}
"""The JSON Schema of `from` of a step that can read a stream `to: all`."""

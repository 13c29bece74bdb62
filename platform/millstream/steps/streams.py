"""The streams of a graph: records with a name, made by a source or a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.errors import ConfigError
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.steps.contracts import Output
from millstream.steps.declarations import plain_type
from millstream.steps.nodes import Node
from millstream.suggestions import suggestion

__all__ = ["Stream", "input_schemas", "output_stream", "share_records", "step_stream", "union_schema"]

_IDENTITY = {RANK: pa.int32(), OFFSET: pa.int64(), TIME: pa.int64(), PATH: pa.binary()}


@dataclass(frozen=True)
class Stream:
    """A stream: its name, its columns, the step that makes it (None: a source), and the sources of its records.

    The rows of windows, read as records, have the step that made them as their source.
    """

    name: str
    schema: pa.Schema
    maker: str | None
    sources: frozenset[str]


def step_stream(node: Node, sources: frozenset[str]) -> Stream:
    """The records that a step passes on."""
    return Stream(node.name, node.made, node.name, sources)


def output_stream(node: Node, name: str, sources: frozenset[str]) -> Stream:
    """An output of a step, read as records; `ConfigError` if the step has no such output or its rows are no records."""
    outputs = {output.name: output for output in node.step.outputs}
    stream = f"{node.name}.{name}"
    if name not in outputs:
        makes = f"step {node.name!r} makes {', '.join(outputs) or 'no outputs'}"
        raise ConfigError(f"there is no stream {stream!r}{suggestion(name, outputs, makes)}")
    output = outputs[name]
    if output.of == "window" and name not in node.windowed:
        message = f"{stream!r} cannot be read: the step gives its rows no times (`Result.windows`)"
        raise ConfigError(message)
    if output.of == "record" and (
        lacking := [each for each in (RANK, OFFSET, TIME) if each not in output.schema.names]
    ):
        raise ConfigError(f"{stream!r} cannot be read: its rows lack {', '.join(lacking)}")
    return Stream(stream, _columns(output), node.name, frozenset([node.name]) if output.of == "window" else sources)


def _columns(output: Output) -> pa.Schema:
    """The columns of an output's rows as records: first those of the identity."""
    identity = [name for name in _IDENTITY if output.of == "window" or name in output.schema.names]
    first = [pa.field(name, _IDENTITY[name]) for name in identity]
    return pa.schema([*first, *(column for column in output.schema if column.name not in _IDENTITY)])


def union_schema(streams: Sequence[Stream]) -> pa.Schema:
    """The columns of the union of these streams; `ConfigError` if they have different columns.

    The union has a path if a stream has one, or if two streams may have the same record.
    """
    first, *others = streams
    for other in others:
        if difference := _difference(first, other):
            raise ConfigError(f"the streams {first.name!r} and {other.name!r} have different columns: {difference}")
    if PATH in first.schema.names or not (share_records(streams) or any(PATH in s.schema.names for s in others)):
        return first.schema
    return first.schema.insert(first.schema.get_field_index(TIME) + 1, pa.field(PATH, pa.binary()))


def input_schemas(streams: Sequence[Stream]) -> list[pa.Schema]:
    """The columns of streams that are inputs of one step; with a path if two of them may have the same record."""
    path = pa.field(PATH, pa.binary())
    add = share_records(streams)
    return [s.schema if PATH in s.schema.names or not add else s.schema.append(path) for s in streams]


def share_records(streams: Sequence[Stream]) -> bool:
    """True if two of these streams may have records with the same identity."""
    return len(frozenset().union(*(s.sources for s in streams))) < sum(len(s.sources) for s in streams)


def _difference(one: Stream, other: Stream) -> str:
    for name in (*one.schema.names, *other.schema.names):
        if name == PATH:
            continue
        for each in (one, other):
            if name not in each.schema.names:
                return f"{each.name!r} lacks {name!r}"
        kinds = [plain_type(each.schema.field(name).type) for each in (one, other)]
        if kinds[0] != kinds[1]:
            return f"{name!r} is {kinds[0]} in the first and {kinds[1]} in the second"
    return ""

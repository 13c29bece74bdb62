"""The nodes of a graph: steps, each built for the records that it reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from millstream.config.document import KeyPath
from millstream.config.pipeline import NamedStep
from millstream.digests.layouts import layout_of
from millstream.errors import ConfigError
from millstream.extras import check_parts
from millstream.records import OFFSET, PATH, RANK, TIME, no_records
from millstream.steps.column_checks import WrongInput
from millstream.steps.contracts import JoinStep, Result, Step, Traits
from millstream.steps.keys import check_key
from millstream.steps.several_inputs import JoinedInputs, OneInput

__all__ = ["Node", "build_node"]


@dataclass(frozen=True)
class Node:
    """One step: its name, its options, the step itself, the columns that it makes, and its path in the config.

    `reads` names the streams that it reads, and `records` has the columns of their union. `number` is the place of the
    step in the config. `windowed` names the outputs whose rows are those of windows and can be read as records. A step
    with several inputs has them `joined` in one table. `cycle` is the name of the cycle that the step is in, and `back`
    the streams that it reads over back edges.
    """

    name: str
    config: Any
    step: Step
    made: pa.Schema
    path: KeyPath = ()
    reads: tuple[str, ...] = ()
    records: pa.Schema = field(default_factory=lambda: pa.schema([]))
    number: int = 0
    windowed: frozenset[str] = frozenset()
    joined: JoinedInputs | None = None
    cycle: str = ""
    back: tuple[str, ...] = ()

    @property
    def traits(self) -> Traits:
        return self.step.traits

    @cached_property
    def has_paths(self) -> bool:
        """True if the records that it makes may be children."""
        return PATH in self.made.names


def build_node(
    named: NamedStep, records: pa.Schema | Sequence[pa.Schema], reads: tuple[str, ...] = (), number: int = 0
) -> Node:
    """Build a step for these records; `ConfigError` if its key or its columns are wrong.

    A step with several inputs gets a schema for each of them.
    """
    joined: JoinedInputs | None = None
    try:
        check_parts(named.config)
        step: Step
        if isinstance(records, pa.Schema):
            step = named.config.build(records)
        else:
            join: JoinStep = (named.config.build_to_all if named.to_all else named.config.build)(records)
            joined = JoinedInputs(records, join.traits.key_fields)
            step, records = OneInput(join, joined), joined.schema
        check_key(step.traits, records)
        result: Result = step.process(no_records(records))
        made = result.records.schema
    except ConfigError as error:
        message = error.naming(reads[error.number]) if isinstance(error, WrongInput) and reads else str(error)
        named_already = named.name in message.partition(":")[0]
        raise ConfigError(message if named_already else f"step {named.name!r}: {message}") from error
    except Exception as error:
        message = f"step {named.name!r} cannot take an empty batch: {type(error).__name__}: {error}"
        raise ConfigError(message) from error
    position = (RANK, OFFSET, TIME, *([PATH] if PATH in records.names else []))
    lacking = [name for name in position if name not in made.names]
    if lacking:
        message = f"step {named.name!r} drops {', '.join(lacking)}; every step passes these columns on"
        raise ConfigError(message)
    for column in itertools.chain(made, *(output.schema for output in step.outputs)):
        _check_type(named.name, column)
    windowed = frozenset(result.windows)
    return Node(named.name, named.config, step, made, named.path, reads, records, number, windowed, joined)


def _check_type(step: str, column: pa.Field) -> None:
    """Refuse a column that a receipt could not digest."""
    try:
        layout_of(column.type)
    except TypeError as error:
        raise ConfigError(f"step {step!r}, column {column.name!r}: {error}") from error

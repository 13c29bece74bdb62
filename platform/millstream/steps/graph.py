"""The graph of a pipeline: its steps, each built for the columns of the previous step, and their outputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from millstream.config.document import KeyPath, Problem
from millstream.config.pipeline import NamedStep, duplicates
from millstream.config.sources import SourceTime
from millstream.digests.layouts import layout_of
from millstream.errors import ConfigError
from millstream.extras import check_parts
from millstream.records import OFFSET, PATH, RANK, REJECT, TIME, identity_of, log_schema, no_records
from millstream.steps.contracts import Output, Step, Traits, rejects_schema
from millstream.steps.keys import check_key
from millstream.suggestions import suggestion

__all__ = ["Graph", "Node", "build_graph", "build_node", "check_graph", "sink_problems"]

REJECTS = "rejects"


@dataclass(frozen=True)
class Node:
    """One step: its name, its options, the step itself, the columns that it makes, and its path in the config."""

    name: str
    config: Any
    step: Step
    made: pa.Schema
    path: KeyPath = ()

    @property
    def traits(self) -> Traits:
        return self.step.traits


@dataclass(frozen=True)
class Graph:
    """Steps in their order, and the outputs of all steps by name.

    `fields` are the log's; `records` is the schema that the first step gets.
    """

    steps: tuple[Node, ...]
    outputs: Mapping[str, Output]
    fields: tuple[str, ...]
    records: pa.Schema
    source_name: str = "source"
    """The step name in `rejects` for records that the log cannot read."""
    sources: Mapping[str, SourceTime] = field(default_factory=dict)
    """The event time of each source; a source that is missing here has the defaults of `SourceTime`."""

    def source(self, name: str) -> SourceTime:
        """The event time of a source's records."""
        return self.sources.get(name, SourceTime())

    @property
    def waits_for_time(self) -> bool:
        """True if a step waits for ends in event time."""
        return any("time" in node.traits.ends for node in self.steps)

    @property
    def log_columns(self) -> list[str]:
        """The columns that the log yields."""
        return list(log_schema(self.fields).names)

    @cached_property
    def digested(self) -> Mapping[str, Sequence[str]]:
        """For each step the columns that a receipt digests: the identity of a record, and those that the step adds.

        If the step adds none, all columns, because it may change or drop records; but none for a step with outputs.
        """
        chosen: dict[str, Sequence[str]] = {}
        before = self.records
        for node in self.steps:
            added = [name for name in node.made.names if name not in before.names]
            whole = [] if node.step.outputs else node.made.names
            identity = identity_of(node.made.names)
            chosen[node.name] = [*identity, *(name for name in added if name not in identity)] if added else whole
            before = node.made
        return chosen


def build_graph(
    steps: Sequence[NamedStep], fields: Iterable[str], sources: Mapping[str, SourceTime] | None = None
) -> Graph:
    """Build the steps for a log with these fields, each step for the records that the previous step makes.

    >>> from millstream_models.hashed_text import HashedText
    >>> graph = build_graph([NamedStep("features", HashedText(dimensions=1024))], ["text", "label"])
    >>> graph.steps[0].name, list(graph.outputs)
    ('features', ['rejects'])
    >>> build_graph([NamedStep("features", HashedText())], ["label"])
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: step 'features': hashed_text reads the column 'text', but ...
    """
    graph, problems = check_graph(steps, fields, sources)
    if graph is None:
        raise ConfigError("\n".join(problem.message for problem in problems))
    return graph


def check_graph(
    steps: Sequence[NamedStep], fields: Iterable[str], sources: Mapping[str, SourceTime] | None = None
) -> tuple[Graph | None, list[Problem]]:
    """The graph, or None and all problems that keep it from being built."""
    names = tuple(dict.fromkeys(name for name in fields if name != "time"))
    problems = [Problem(steps[index].path, message) for index, message in duplicates([step.name for step in steps])]
    columns = [column for column in log_schema(names) if column.name != REJECT]
    first = schema = pa.schema([pa.field(RANK, pa.int32()), *columns])
    nodes: list[Node] = []
    for index, named in enumerate(steps):
        try:
            nodes.append(build_node(named, schema))
        except ConfigError as error:
            problems.append(Problem(named.path, f"{error}{_move_hint(steps, index, schema)}"))
            return None, problems  # the columns for the next steps are not known
        schema = nodes[-1].made
    outputs, clashes = _outputs(nodes)
    problems += clashes
    if problems:
        return None, problems
    return Graph(tuple(nodes), outputs, names, first, sources=sources or {}), []


def build_node(named: NamedStep, records: pa.Schema) -> Node:
    """Build a step for these records; `ConfigError` if its key or its columns are wrong."""
    try:
        check_parts(named.config)
        step: Step = named.config.build(records)
        check_key(step.traits, records)
        made: pa.Schema = step.process(no_records(records)).records.schema
    except ConfigError as error:
        named_already = named.name in str(error).partition(":")[0]
        raise ConfigError(f"{error}" if named_already else f"step {named.name!r}: {error}") from error
    except Exception as error:
        message = f"step {named.name!r} cannot take an empty batch: {type(error).__name__}: {error}"
        raise ConfigError(message) from error
    lacking = [name for name in (RANK, OFFSET, TIME) if name not in made.names]
    if lacking:
        message = f"step {named.name!r} drops {', '.join(lacking)}; every step passes these columns on"
        raise ConfigError(message)
    for column in itertools.chain(made, *(output.schema for output in step.outputs)):
        _check_type(named.name, column)
    return Node(named.name, named.config, step, made, named.path)


def _check_type(step: str, column: pa.Field) -> None:
    """Refuse a column that a receipt could not digest."""
    try:
        layout_of(column.type)
    except TypeError as error:
        raise ConfigError(f"step {step!r}, column {column.name!r}: {error}") from error


def _move_hint(steps: Sequence[NamedStep], index: int, records: pa.Schema) -> str:
    """A hint, if a later step makes the columns that the step at `index` lacks."""
    for later in steps[index + 1 :]:
        try:
            build_node(steps[index], build_node(later, records).made)
        except ConfigError:
            continue
        return f"; or move step {later.name!r} before it"
    return ""


def _outputs(nodes: Iterable[Node]) -> tuple[dict[str, Output], list[Problem]]:
    outputs, problems = {REJECTS: Output(REJECTS, rejects_schema())}, []
    makers: dict[str, str] = {}
    for node in nodes:
        for output in node.step.outputs:
            if output.name == REJECTS and output.schema.equals(rejects_schema(output.schema)):
                if PATH in output.schema.names:
                    outputs[REJECTS] = output
                continue
            if output.name == REJECTS:
                message = f"step {node.name!r} makes `rejects` with columns of its own; use `rejects_schema()`"
                problems.append(Problem(node.path, message))
            elif output.name in makers:
                message = f"steps {makers[output.name]!r} and {node.name!r} both make the output {output.name!r}"
                problems.append(Problem(node.path, f"{message}; use only one of these steps"))
            else:
                outputs[output.name] = output
                makers[output.name] = node.name
    return outputs, problems


def sink_problems(graph: Graph, sinks: Iterable[str]) -> list[Problem]:
    """Problems with sinks whose output no step makes.

    >>> from millstream_models.hashed_text import HashedText
    >>> graph = build_graph([NamedStep("features", HashedText(dimensions=1024))], ["text"])
    >>> sink_problems(graph, ["reject"])[0].message
    'no step makes this output; one of rejects; did you mean `rejects`?'
    """
    problems = []
    for name in sinks:
        if name not in graph.outputs:
            meant = suggestion(name, graph.outputs)
            message = f"no step makes this output; one of {', '.join(graph.outputs)}{meant}"
            problems.append(Problem(("sinks", name), message))
    return problems

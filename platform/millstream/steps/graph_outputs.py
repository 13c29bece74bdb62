"""The outputs of a graph by name: the outputs of its steps, and the records of the steps that have a sink."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.config.document import Problem
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.shadow_names import is_shadow
from millstream.steps.contracts import Output, rejects_schema
from millstream.steps.nodes import Node
from millstream.steps.reject_rows import with_step

__all__ = ["LATE", "REJECTS", "GraphOutputs", "graph_outputs", "makers_by_output"]

REJECTS, LATE = "rejects", "late"
"""The outputs that steps share; they have no full name."""
_STEP = "step"
"""The column of a shared output that names the step."""


@dataclass(frozen=True)
class GraphOutputs:
    """The outputs by name, and the name of each output of each step.

    An output has its short name while one step makes it, otherwise the name `step.output`; a sink's key may choose the
    full name. Those of a shadow have the full name, and change the name of no other one. `rejects` and `late` are each
    one output of all steps, with the short name only. `records` are the steps whose records have a sink.
    """

    outputs: Mapping[str, Output]
    names: Mapping[tuple[str, str], str]
    records: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()
    """The shared outputs whose rows get the name of their step here."""

    @property
    def shared(self) -> frozenset[str]:
        """The outputs that are made by all steps together."""
        return self.marked | {REJECTS}

    def of(self, step: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The rows of a step's outputs by the names of the outputs, without those that have no rows."""
        return {
            name: with_step(table, step) if name in self.shared else table
            for name, table in ((self.names[step, short], table) for short, table in tables.items() if table.num_rows)
        }


def graph_outputs(nodes: Sequence[Node], sinks: Collection[str]) -> tuple[GraphOutputs, list[Problem]]:
    """The outputs of these steps for these keys of sinks, or all problems with outputs that steps share.

    A key that names no output is left out here; `sink_problems` reports it.
    """
    problems: list[Problem] = []
    made = makers_by_output(nodes)
    outputs: dict[str, Output] = {REJECTS: _rejects(made.pop(REJECTS, []), problems)}
    names = {(node.name, REJECTS): REJECTS for node in nodes}
    marked: set[str] = set()
    for short, makers in made.items():
        shared = short == LATE and len(makers) > 1
        if shared:
            outputs[LATE] = _late(makers, problems)
            marked.add(LATE)
        several = sum(not is_shadow(node.name) for node, _ in makers) > 1
        for node, output in makers:
            full = f"{node.name}.{short}"
            name = full if short != LATE and (several or full in sinks or is_shadow(node.name)) else short
            names[node.name, short] = name
            outputs.setdefault(name, replace(output, name=name))
    with_records = [node for node in nodes if node.name in sinks and node.name not in {*outputs, *made}]
    outputs |= {node.name: Output(node.name, _with_identity_first(node.made)) for node in with_records}
    records = frozenset(node.name for node in with_records)
    return GraphOutputs(outputs, names, records, frozenset(marked)), problems


def makers_by_output(nodes: Iterable[Node]) -> dict[str, list[tuple[Node, Output]]]:
    """The steps that make an output, by its short name."""
    made: dict[str, list[tuple[Node, Output]]] = {}
    for node in nodes:
        for output in node.step.outputs:
            made.setdefault(output.name, []).append((node, output))
    return made


def _rejects(makers: Sequence[tuple[Node, Output]], problems: list[Problem]) -> Output:
    schema = rejects_schema()
    for node, output in makers:
        if output.schema.equals(rejects_schema(output.schema)):
            schema = output.schema if PATH in output.schema.names else schema
        else:
            message = f"step {node.name!r} makes `rejects` with columns of its own; use `rejects_schema()`"
            problems.append(Problem(node.path, message))
    return Output(REJECTS, schema, key=(_STEP,) if len(makers) > 1 else ())


def _with_identity_first(records: pa.Schema) -> pa.Schema:
    first = [name for name in (RANK, OFFSET, TIME, PATH) if name in records.names]
    return pa.schema([records.field(name) for name in (*first, *(name for name in records.names if name not in first))])


def _late(makers: Sequence[tuple[Node, Output]], problems: list[Problem]) -> Output:
    columns: dict[str, pa.Field] = {}
    for node, output in makers:
        if _STEP in output.schema.names:
            message = f"step {node.name!r} makes `late` with the field {_STEP!r} of its key, but all steps share `late`"
            hint = "give the field another name, in the `fields` of the source or where a step adds it"
            problems.append(Problem(node.path, f"{message}, where the column {_STEP!r} names the step; {hint}"))
        for column in output.schema:
            first = columns.setdefault(column.name, column)
            if first.type != column.type:
                message = f"step {node.name!r} makes `late` with {column.name!r} as {column.type}, not {first.type}"
                problems.append(Problem(node.path, f"{message}; all steps share this output"))
    return Output(LATE, pa.schema([*columns.values(), pa.field(_STEP, pa.string())]), key=(_STEP,))

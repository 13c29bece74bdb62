"""The graph of a pipeline: its steps, each built for the streams that it reads, its streams, and its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from millstream.config.document import Problem
from millstream.config.pipeline import DEFAULT_LIMITS, CycleLimits, NamedStep
from millstream.config.sources import SourceTime
from millstream.errors import ConfigError
from millstream.records import RANK, REJECT, identity_of, log_schema
from millstream.shadow_names import is_shadow
from millstream.steps.contracts import Output
from millstream.steps.cycles import Cycle, back_edges, cycle_problems, cycles_of, with_path
from millstream.steps.edges import Wired, maker_of, read_path, wire
from millstream.steps.graph_outputs import GraphOutputs, graph_outputs
from millstream.steps.inputs import StepInput
from millstream.steps.nodes import Node, build_node
from millstream.steps.streams import Stream, input_schemas, output_stream, step_stream, union_schema

__all__ = ["Graph", "build_graph", "check_graph"]


@dataclass(frozen=True)
class Graph:
    """Steps in topological order, the streams by name, and the outputs of all steps by name.

    The steps of a cycle are together, in the order of the config. `fields` are the log's; `records` has the columns of
    the records of all sources. `limits` are those of a cycle in one epoch.
    """

    steps: tuple[Node, ...]
    streams: Mapping[str, Stream]
    made: GraphOutputs
    fields: tuple[str, ...]
    records: pa.Schema
    source_name: str = "source"
    """The step name in `rejects` for records that the log cannot read."""
    sources: Mapping[str, SourceTime] = field(default_factory=dict)
    """The event time of each source; a source that is missing here has the defaults of `SourceTime`."""
    limits: CycleLimits = DEFAULT_LIMITS

    @property
    def outputs(self) -> Mapping[str, Output]:
        """The outputs by the names of their sinks."""
        return self.made.outputs

    def source(self, name: str) -> SourceTime:
        """The event time of a source's records."""
        return self.sources.get(name, SourceTime())

    @cached_property
    def windowed(self) -> Mapping[int, str]:
        """The names of the steps by the ranks of their rows of windows."""
        return {-1 - node.number: node.name for node in self.steps}

    @property
    def waits_for_time(self) -> bool:
        """True if a step waits for ends in event time."""
        return any("time" in node.traits.ends for node in self.steps)

    @property
    def log_columns(self) -> list[str]:
        """The columns that the log yields."""
        return list(log_schema(self.fields).names)

    @property
    def is_chain(self) -> bool:
        """True if the first step reads all sources, and every other step the step before it, shadows apart."""
        first, *others = steps = [node for node in self.steps if not is_shadow(node.name)]
        before = [(node.name,) for node in steps[:-1]]
        return self.inputs[first.name].everything and [node.reads for node in others] == before and not self.cycles

    @cached_property
    def inputs(self) -> Mapping[str, StepInput]:
        """The input of each step."""
        everything = {name for name, stream in self.streams.items() if stream.maker is None}
        edges = back_edges(self.steps)
        inputs = {}
        for node in self.steps:
            entering = [name for name in node.reads if name not in node.back]
            back = {name: edges[node.name, name] for name in node.back}
            streams = [self.streams[name] for name in entering]
            inputs[node.name] = StepInput.of(streams, node.records, set(entering) == everything, node.joined, back)
        return inputs

    @cached_property
    def cycles(self) -> Mapping[str, Cycle]:
        """The cycles by name."""
        return cycles_of(self.steps)

    @cached_property
    def units(self) -> Sequence[tuple[Node, ...]]:
        """The steps in topological order: each step alone, or all steps of a cycle together."""
        groups: dict[str, tuple[Node, ...]] = {}
        for node in self.steps:
            groups.setdefault(node.cycle or node.name, self.cycles[node.cycle].steps if node.cycle else (node,))
        return tuple(groups.values())

    @cached_property
    def needs_order(self) -> bool:
        """True if a step merges streams by the order of the records in their epoch."""
        return any(each.needs_order for each in self.inputs.values())

    @cached_property
    def held_back(self) -> Mapping[str, int]:
        """By step, how far its own watermark is behind that of the sources: the most over all ways to the step."""
        behind: dict[str, int] = {}
        for unit in self.units:
            inside = {node.name for node in unit}
            before = {self.streams[name].maker for node in unit for name in node.reads} - inside
            ways = [0 if name is None else behind[name] + self.node(name).traits.held_back for name in before]
            behind |= dict.fromkeys(inside, max(ways))
        return behind

    def node(self, name: str) -> Node:
        """The step of this name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.steps}

    @cached_property
    def digested(self) -> Mapping[str, Sequence[str]]:
        """For each step the columns that a receipt digests: the identity of a record, and those that the step adds.

        If the step adds none, all columns, because it may change or drop records; but none for a step with outputs. A
        shadow has none either: as long as it has no model, a receipt is the same with it and without it.
        """
        chosen: dict[str, Sequence[str]] = {}
        for node in self.steps:
            if is_shadow(node.name):
                chosen[node.name] = []
                continue
            added = [name for name in node.made.names if name not in node.records.names]
            whole = [] if node.step.outputs else node.made.names
            identity = identity_of(node.made.names)
            chosen[node.name] = [*identity, *(name for name in added if name not in identity)] if added else whole
        return chosen


def build_graph(
    steps: Sequence[NamedStep],
    fields: Iterable[str],
    sources: Mapping[str, SourceTime] | None = None,
    sinks: Iterable[str] = (),
    limits: CycleLimits = DEFAULT_LIMITS,
) -> Graph:
    """Build the steps for a log with these fields, each step for the records of the streams that it reads.

    >>> from millstream_models.hashed_text import HashedText
    >>> graph = build_graph([NamedStep("features", HashedText(dimensions=1024))], ["text", "label"])
    >>> graph.steps[0].name, list(graph.outputs), list(graph.streams)
    ('features', ['rejects'], ['source', 'features'])
    >>> build_graph([NamedStep("features", HashedText())], ["label"])
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: step 'features': hashed_text reads the column 'text', but ...
    """
    graph, problems = check_graph(steps, fields, sources, sinks, limits)
    if graph is None:
        raise ConfigError("\n".join(problem.message for problem in problems))
    return graph


def check_graph(
    steps: Sequence[NamedStep],
    fields: Iterable[str],
    sources: Mapping[str, SourceTime] | None = None,
    sinks: Iterable[str] = (),
    limits: CycleLimits = DEFAULT_LIMITS,
) -> tuple[Graph | None, list[Problem]]:
    """The graph, or None and all problems that keep it from being built. `sinks` are the keys of the sinks."""
    names = tuple(dict.fromkeys(name for name in fields if name != "time"))
    sources = sources or {"source": SourceTime()}
    streams = {
        name: Stream(name, _log_records(names, times.fields), None, frozenset([name]))
        for name, times in sources.items()
    }
    wired, problems = wire(steps, list(streams))
    nodes: list[Node] = []
    for step in wired:
        if not all(maker_of(name) in streams for name in step.entering):
            continue  # a step before cannot be built, so the columns are not known
        try:
            nodes.append(_build(step, streams, names, nodes))
        except _WrongStream as error:
            problems.append(Problem(read_path(step.named, error.index), f"step {step.named.name!r}: {error}"))
        except ConfigError as error:
            hint = _move_hint(steps, step, streams)
            problems.append(Problem(step.named.path, f"{error}{hint}"))
        else:
            streams[step.named.name] = step_stream(nodes[-1], _sources_of(step, wired, streams))
    problems += _add_back_streams(wired, streams, nodes)
    if not problems:
        problems += cycle_problems(steps, nodes, streams, frozenset(sources))
    if problems:
        return None, problems
    made, problems = graph_outputs(nodes, list(sinks))
    if problems:
        return None, problems
    return Graph(tuple(nodes), streams, made, names, _log_records(names), sources=sources, limits=limits), []


class _WrongStream(ConfigError):
    """A stream that a step cannot read, with its index in `from`."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


def _build(step: Wired, streams: dict[str, Stream], fields: Sequence[str], nodes: Sequence[Node]) -> Node:
    """Build a step for the union of the streams that it reads; outputs that it reads become streams.

    The streams of back edges are not known yet; `cycle_problems` compares their columns.
    """
    for name in step.entering:
        _add_stream(step, name, streams, nodes)
    read = [streams[name] for name in step.entering]
    records: pa.Schema | Sequence[pa.Schema]
    if hasattr(step.named.config, "inputs"):
        records = input_schemas(read)
    elif all(stream.maker is None for stream in read):  # fields that one of these sources lacks are null there
        columns = {name for stream in read for name in stream.schema.names}
        records = _log_records([name for name in fields if name in columns])
    else:
        try:
            records = union_schema(read)
        except ConfigError as error:
            raise _WrongStream(str(error), len(step.reads) - 1) from error
    if step.back and isinstance(records, pa.Schema):
        records = with_path(records)
    node = build_node(step.named, records, step.reads, step.number)
    return replace(node, cycle=step.cycle, back=step.back)


def _add_stream(step: Wired, name: str, streams: dict[str, Stream], nodes: Sequence[Node]) -> None:
    """Add a stream that a step reads, if it is an output and not known yet."""
    if name not in streams:
        [maker] = (node for node in nodes if node.name == maker_of(name))
        try:
            streams[name] = output_stream(maker, name.partition(".")[2], streams[maker.name].sources)
        except ConfigError as error:
            raise _WrongStream(str(error), step.reads.index(name)) from error


def _add_back_streams(wired: Sequence[Wired], streams: dict[str, Stream], nodes: Sequence[Node]) -> Iterable[Problem]:
    """Add the outputs that are read over back edges to the streams; the problems with those that cannot be read."""
    for step in wired:
        for name in step.back:
            if maker_of(name) in streams:
                try:
                    _add_stream(step, name, streams, nodes)
                except _WrongStream as error:
                    yield Problem(read_path(step.named, error.index), f"step {step.named.name!r}: {error}")


def _sources_of(step: Wired, wired: Sequence[Wired], streams: Mapping[str, Stream]) -> frozenset[str]:
    """The sources of a step's records: in a cycle those of all its steps."""
    cycle = [each for each in wired if step.cycle and each.cycle == step.cycle] or [step]
    inside = {each.named.name for each in cycle}
    entering = {name for each in cycle for name in each.reads if maker_of(name) not in inside}
    return frozenset[str]().union(*(_sources_below(name, streams) for name in entering))


def _sources_below(name: str, streams: Mapping[str, Stream]) -> frozenset[str]:
    """The sources of a stream; of an output that is no stream yet, those of the records of its step."""
    known = streams.get(name, streams.get(maker_of(name)))
    return known.sources if known is not None else frozenset()


def _log_records(names: Sequence[str], chosen: Sequence[str] | None = None) -> pa.Schema:
    """The columns of a log with these fields, or with those of them that are chosen."""
    kept = [name for name in names if chosen is None or name in chosen]
    columns = [column for column in log_schema(kept) if column.name != REJECT]
    return pa.schema([pa.field(RANK, pa.int32()), *columns])


def _move_hint(steps: Sequence[NamedStep], wrong: Wired, streams: Mapping[str, Stream]) -> str:
    """A hint, if a later step of a chain makes the columns that a step lacks."""
    if any(step.reads is not None for step in steps):
        return ""
    records = streams[wrong.reads[0]].schema
    for later in steps[wrong.number + 1 :]:
        try:
            build_node(wrong.named, build_node(later, records).made)
        except ConfigError:
            continue
        return f"; or move step {later.name!r} before it"
    return ""

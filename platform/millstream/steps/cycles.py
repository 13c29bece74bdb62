"""Cycles of a graph: their steps and back edges, and the problems that keep a cycle from running in rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from millstream.config.document import Problem
from millstream.config.pipeline import CycleLimits, NamedStep
from millstream.errors import ConfigError, StepFailed
from millstream.records import PATH, TIME
from millstream.steps.edges import maker_of, read_path
from millstream.steps.nodes import Node
from millstream.steps.round_paths import MOST_BACK_EDGES, BackEdge
from millstream.steps.streams import Stream, union_schema

__all__ = ["Cycle", "RecordsSentBack", "back_edges", "cycle_problems", "cycles_of", "with_path"]


class RecordsSentBack(NamedTuple):
    """The number of records that a cycle sends back after so many rounds of an epoch, and `total` in all rounds so far.

    `rank`, `offset` and `record`, a description, are those of the first of these records.
    """

    epoch: int
    rounds: int
    records: int
    total: int
    rank: int
    offset: int
    record: str


@dataclass(frozen=True)
class Cycle:
    """A cycle: its steps in the order of the config. `back` names the streams that are read over its back edges."""

    steps: tuple[Node, ...]
    back: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the first step."""
        return self.steps[0].name

    def check(self, sent: RecordsSentBack, limits: CycleLimits) -> None:
        """Raise `StepFailed`, which names the first record that is sent back, if the cycle goes on beyond a limit."""
        steps, rounds = ", ".join(repr(node.name) for node in self.steps), _counted(sent.rounds, "round")
        if sent.rounds >= limits.rounds:
            option, problem = "rounds", f"has not ended after {rounds}"
        elif sent.total > limits.sent_back:
            option = "sent_back"
            problem = (
                f"has sent back {_counted(sent.total, 'record')} in {rounds}, and {limits.sent_back:,} are allowed"
            )
        else:
            return
        more = f" and {sent.records - 1:,} more" if sent.records > 1 else ""
        message = (
            f"the cycle of {steps} {problem}: "
            f"the record {sent.record}{more} is sent back again in epoch {sent.epoch}; "
            f"send back only what has changed, or raise `pipeline.{option}`"
        )
        raise StepFailed(message, sent.rank, sent.offset)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def cycles_of(nodes: Sequence[Node]) -> dict[str, Cycle]:
    """The cycles of these steps by name."""
    members: dict[str, list[Node]] = {}
    for node in nodes:
        if node.cycle:
            members.setdefault(node.cycle, []).append(node)
    return {
        name: Cycle(tuple(steps), tuple(dict.fromkeys(stream for node in steps for stream in node.back)))
        for name, steps in members.items()
    }


def back_edges(nodes: Sequence[Node]) -> dict[tuple[str, str], BackEdge]:
    """The back edges by the step and the stream that it reads."""
    edges = [(node, stream) for node in nodes for stream in node.back]
    in_cycle = [node.cycle for node, _ in edges]
    return {
        (node.name, stream): BackEdge(number, in_cycle.count(node.cycle) == 1)
        for number, (node, stream) in enumerate(edges)
    }


def with_path(records: pa.Schema) -> pa.Schema:
    """The columns of these records, with a path."""
    if PATH in records.names:
        return records
    return records.insert(records.get_field_index(TIME) + 1, pa.field(PATH, pa.binary()))


def cycle_problems(
    steps: Sequence[NamedStep], nodes: Sequence[Node], streams: Mapping[str, Stream], sources: frozenset[str]
) -> Iterator[Problem]:
    """The problems of the cycles of these steps, all of which are built."""
    named = {step.name: step for step in steps}
    if len(edges := list(back_edges(nodes))) > MOST_BACK_EDGES:
        name, stream = edges[MOST_BACK_EDGES]
        reads = next(node.reads for node in nodes if node.name == name)
        message = f"there are {len(edges)} back edges, and at most {MOST_BACK_EDGES} are allowed; use fewer cycles"
        yield Problem(read_path(named[name], reads.index(stream)), message)
    for cycle in cycles_of(nodes).values():
        inside = {node.name for node in cycle.steps}
        for node in cycle.steps:
            if node.traits.ends:
                message = (
                    f"step {node.name!r} waits for ends in event time, and the rows of an end cannot go around in a "
                    f"cycle; put it before or behind the cycle of {cycle.name!r}"
                )
                yield Problem(node.path, message)
            for index, name in enumerate(node.reads):
                path = read_path(named[node.name], index)
                if maker_of(name) not in inside and not streams[name].sources <= sources:
                    message = f"the rows of windows cannot enter a cycle, and {name!r} has such rows"
                    yield Problem(path, f"{message}; read the records behind the cycle, or write the rows to a log")
                elif name in node.back and (wrong := _other_columns(node, streams[name])):
                    yield Problem(path, f"step {node.name!r}: {wrong}")
            if node.back and node.joined is not None:
                message = f"step {node.name!r} has several inputs, so no step can send records back to it"
                index = node.reads.index(node.back[0])
                yield Problem(read_path(named[node.name], index), f"{message}; send them to a step before it")
        if (way := _endless(cycle, inside)) is not None:
            reader, stream = way[0]
            message = (
                "the steps pass every record on, in a cycle that nothing ends: "
                f"{' <- '.join([node.name for node, _ in way] + [reader.name])}; "
                "read an output of a step, as `step.output`, or put a `filter` into the cycle"
            )
            yield Problem(read_path(named[reader.name], reader.reads.index(stream)), message)


def _other_columns(node: Node, back: Stream) -> str:
    """The difference between the records of a step and those that are sent back to it; empty without one."""
    try:
        union_schema([Stream(node.reads[0], node.records, None, frozenset()), back])
    except ConfigError as error:
        return f"{error}"
    return ""


def _endless(cycle: Cycle, inside: set[str]) -> list[tuple[Node, str]] | None:
    """A way around, against the stream: steps that all pass every record on, each with the stream that it reads.

    The way begins with a step that reads over a back edge; None without such a way.
    """
    known = {node.name: node for node in cycle.steps}
    passing = {node.name for node in cycle.steps if node.traits.keeps_all or node.traits.only_adds}

    def around(way: list[tuple[Node, str]]) -> list[tuple[Node, str]] | None:
        maker = maker_of(way[-1][1])
        if maker != way[-1][1] or maker not in passing:
            return None
        if maker == way[0][0].name:
            return way
        if maker in (node.name for node, _ in way):
            return None
        node = known[maker]
        found = (around([*way, (node, stream)]) for stream in node.reads if maker_of(stream) in inside)
        return next((each for each in found if each is not None), None)

    starts = ([(node, stream)] for node in cycle.steps for stream in node.back)
    return next((found for start in starts if (found := around(start)) is not None), None)

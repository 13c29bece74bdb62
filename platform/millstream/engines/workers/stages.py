"""The stages of a graph: its steps by the role that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node

__all__ = ["Stages", "stages_of"]


@dataclass(frozen=True)
class Stages:
    """The steps of a graph by role, each in the order of the graph.

    `head` runs in the readers, each epoch in one of them, because these steps have no state and read only each other
    and sources. `keyed`, which reads only these too, runs in all readers, a key always in the same reader. `rest` runs
    only in the sequencer.
    """

    head: Sequence[Node]
    keyed: Node | None
    rest: Sequence[Node]


def stages_of(graph: Graph) -> Stages:
    """Assign the steps of a graph to stages; their order stays."""
    head: list[Node] = []
    keyed: Node | None = None
    rest: list[Node] = []
    in_reader: set[str | None] = {None}  # the makers of streams that the readers have: sources and steps of `head`
    for node in graph.steps:
        read_there = {graph.streams[stream].maker for stream in node.reads} <= in_reader
        if read_there and node.traits.scope is Scope.STATELESS:
            head.append(node)
            in_reader.add(node.name)
        elif read_there and keyed is None and _shared_by_key(node):
            keyed = node
        else:
            rest.append(node)
    return Stages(tuple(head), keyed, tuple(rest))


def _shared_by_key(node: Node) -> bool:
    """True if several workers may share the keys of a step: each of its rows comes from a single record."""
    traits = node.traits
    return traits.scope is Scope.KEYED and not traits.ends and all(out.of == "record" for out in node.step.outputs)

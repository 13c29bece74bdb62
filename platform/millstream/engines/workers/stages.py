"""The stages of a pipeline: its steps by the role that runs them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph, Node

__all__ = ["Stages", "stages_of"]


@dataclass(frozen=True)
class Stages:
    """The steps of a pipeline by role.

    `head` runs in the readers, each epoch in one of them, because these steps have no state. `keyed` runs in all
    readers, a key always in the same reader. `rest` runs only in the sequencer.
    """

    head: Sequence[Node]
    keyed: Node | None
    rest: Sequence[Node]


def stages_of(graph: Graph) -> Stages:
    """Assign the steps of a graph to stages; their order stays."""
    steps = graph.steps
    head = tuple(itertools.takewhile(lambda node: node.traits.scope is Scope.STATELESS, steps))
    rest = steps[len(head) :]
    if rest and _shared_by_key(rest[0]):
        return Stages(head, rest[0], rest[1:])
    return Stages(head, None, rest)


def _shared_by_key(node: Node) -> bool:
    """True if several workers may share the keys of a step: each of its rows comes from a single record."""
    traits = node.traits
    return traits.scope is Scope.KEYED and not traits.ends and all(out.of == "record" for out in node.step.outputs)

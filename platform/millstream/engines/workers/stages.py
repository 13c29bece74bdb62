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

    `head`: whole epochs go to the readers in turn, as these steps have no state. `keyed` runs in all readers, a
    key always in the same one. `rest`: the sequencer has them alone.
    """

    head: Sequence[Node]
    keyed: Node | None
    rest: Sequence[Node]


def stages_of(graph: Graph) -> Stages:
    """Share out the steps; their order stays."""
    steps = graph.steps
    head = tuple(itertools.takewhile(lambda node: node.traits.scope is Scope.STATELESS, steps))
    rest = steps[len(head) :]
    if rest and _shared_by_key(rest[0]):
        return Stages(head, rest[0], rest[1:])
    return Stages(head, None, rest)


def _shared_by_key(node: Node) -> bool:
    """True if a step's keys may be shared by several workers: each of its rows comes from a single record."""
    traits = node.traits
    return traits.scope is Scope.KEYED and not traits.ends and all(out.of == "record" for out in node.step.outputs)

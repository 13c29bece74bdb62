"""How a pipeline's steps are shared out to workers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph, Node

__all__ = ["Stages", "stages_of"]


@dataclass(frozen=True)
class Stages:
    """The steps of a pipeline by who runs them.

    `head`: whole epochs are dealt to the readers in turn, as these steps have no state. `keyed`: each of them runs in
    all readers, a key always in the same one. `rest`: the keeper has them alone.
    """

    head: Sequence[Node]
    keyed: Sequence[Node]
    rest: Sequence[Node]

    def key_of(self, stage: int) -> str | None:
        """The field that deals records out to a stage; None for the keeper's, which gets all. Stages count from 1."""
        if stage > len(self.keyed):
            return None
        return self.keyed[stage - 1].traits.key


def stages_of(graph: Graph) -> Stages:
    """Share out the steps; their order stays."""
    steps = graph.steps
    head = tuple(itertools.takewhile(lambda node: node.traits.scope is Scope.STATELESS, steps))
    keyed = tuple(itertools.takewhile(_shared_by_key, steps[len(head) :]))
    return Stages(head, keyed, steps[len(head) + len(keyed) :])


def _shared_by_key(node: Node) -> bool:
    """Whether a step's keys may be in several places: what it makes must come from single records."""
    traits = node.traits
    return traits.scope is Scope.KEYED and not traits.ends and all(out.of == "record" for out in node.step.outputs)

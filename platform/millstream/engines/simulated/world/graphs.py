"""A pool of step graphs. Each role borrows its own graph; another role may have used that graph before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from millstream.config.pipeline import NamedStep
from millstream.steps.graph import Graph, build_graph

__all__ = ["Graphs"]


class Graphs:
    """Lends graphs whose steps have no state yet, and takes them back."""

    def __init__(self, steps: Sequence[NamedStep], fields: Iterable[str]) -> None:
        self._steps, self._fields = steps, tuple(fields)
        self._idle: list[Graph] = []

    def lend(self) -> Graph:
        if not self._idle:
            return build_graph(self._steps, self._fields)
        graph = self._idle.pop()
        for node in graph.steps:
            node.step.restore({})
        return graph

    def take_back(self, graph: Graph) -> None:
        self._idle.append(graph)

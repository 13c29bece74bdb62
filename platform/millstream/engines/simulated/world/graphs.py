"""A pool of step graphs. Each role borrows its own graph; another role may have used that graph before."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.config.models import Config
from millstream.steps.contracts import OwnsShards
from millstream.steps.graph import Graph, build_graph

__all__ = ["Graphs"]


class Graphs:
    """Lends graphs whose steps have no state yet, and takes them back."""

    def __init__(self, config: Config, fields: Iterable[str]) -> None:
        self._config, self._fields = config, tuple(fields)
        self._idle: list[Graph] = []

    def lend(self) -> Graph:
        config = self._config
        if not self._idle:
            return build_graph(config.steps, self._fields, config.source_times, config.sinks, config.cycle_limits)
        graph = self._idle.pop()
        for node in graph.steps:
            if isinstance(node.step, OwnsShards):
                node.step.own(lambda shard: True)
            node.step.restore({})
        return graph

    def take_back(self, graph: Graph) -> None:
        self._idle.append(graph)

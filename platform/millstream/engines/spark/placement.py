"""The placement of steps: ordered steps run on the driver, stateless steps where they are faster."""

from __future__ import annotations

from millstream.config.models import EngineConfig
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.steps.placement import chain_from_sources, driver_only

__all__ = ["worker_steps"]

_WORKER_RECORDS = 500
"""The size of epochs from which on steps are faster in workers than on the driver."""


def worker_steps(graph: Graph, engine: EngineConfig) -> list[Node]:
    """The first steps of a chain from all sources that run in workers; each must be the only reader of its records.

    `engine.placement` overrides the choice for each step.
    """
    by_size = "worker" if engine.epoch.max_records >= _WORKER_RECORDS else "driver"
    chosen: list[Node] = []
    for node in chain_from_sources(graph):
        if driver_only(node) is not None or engine.placement.get(node.name, by_size) != "worker":
            break
        chosen.append(node)
    return chosen

"""The placement of steps: ordered steps run on the driver, stateless steps where they are faster."""

from __future__ import annotations

import itertools

from millstream.config.models import EngineConfig
from millstream.steps.graph import Graph, Node
from millstream.steps.placement import driver_only

__all__ = ["worker_steps"]

_WORKER_RECORDS = 500
"""The size of epochs from which on steps are faster in workers than on the driver."""


def worker_steps(graph: Graph, engine: EngineConfig) -> list[Node]:
    """The first steps of the pipeline that run in workers; `engine.placement` overrides the choice for each step."""
    by_size = "worker" if engine.epoch.max_records >= _WORKER_RECORDS else "driver"
    return list(
        itertools.takewhile(
            lambda node: driver_only(node) is None and engine.placement.get(node.name, by_size) == "worker", graph.steps
        )
    )

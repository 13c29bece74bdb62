"""The placement of steps: order-sensitive ones on the driver, stateless ones where that is faster in the workers."""

from __future__ import annotations

import itertools

from millstream.config.models import Engine
from millstream.steps.graph import Graph, Node
from millstream.steps.placement import driver_only

__all__ = ["worker_steps"]

_WORTH_IT = 500
"""Records an epoch from which on workers are faster."""


def worker_steps(graph: Graph, engine: Engine) -> list[Node]:
    """The steps at the head of the pipeline that run in the workers; `engine.placement` overrides, step by step."""
    by_size = "worker" if engine.epoch.max_records >= _WORTH_IT else "driver"
    return list(
        itertools.takewhile(
            lambda node: driver_only(node) is None and engine.placement.get(node.name, by_size) == "worker", graph.steps
        )
    )

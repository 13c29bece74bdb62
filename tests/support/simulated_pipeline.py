"""A pipeline for the simulator: its config, and the records that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millstream.config.models import Config
from millstream.engines.simulated.world.logs import Recorded

__all__ = ["PipelineFactory", "SimulatedPipeline"]


@dataclass(frozen=True)
class SimulatedPipeline:
    """The config of a pipeline, and its first records."""

    config: Config
    records: Recorded


PipelineFactory = Callable[..., SimulatedPipeline]
"""Makes a pipeline with a delivery; optional are the distances of checkpoints and commits, and a model."""

"""The sinks of a run: those of the config, and one in the run directory for every output without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from millstream.config import plugins
from millstream.config.models import Config
from millstream.log.contracts import OpenContext, SinkConfig
from millstream.steps.graph import Graph

__all__ = ["lies_in_run", "sink_configs", "sink_key"]


def sink_configs(config: Config, graph: Graph) -> dict[str, SinkConfig]:
    """For each output, in the order in which sinks are delivered to, where it goes."""
    return {output: config.sinks.get(output) or _default() for output in graph.outputs}


def _default() -> SinkConfig:
    files: Any = plugins.load(plugins.SINKS, "files")
    config: SinkConfig = files(type="files")
    return config


def sink_key(config: SinkConfig, output: str) -> str:
    """What tells a sink from another one of the same output: where it lies, whatever folder the run is in."""
    return f"{output} {config.type} {config.location(OpenContext(Path('.'), Path('run')), output)}"


def lies_in_run(config: SinkConfig, output: str, context: OpenContext) -> bool:
    """Whether its rows lie in the run directory, and go where that goes."""
    return config.location(context, output) != config.location(
        OpenContext(context.base, context.cache / "elsewhere"), output
    )

"""The sinks of a run: the sinks in the config, and a sink in the run directory for each output without one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from millstream.config import plugins
from millstream.config.models import Config
from millstream.log.contracts import OpenContext, SinkConfig
from millstream.steps.graph import Graph

__all__ = ["default_sink", "in_run_directory", "sink_configs", "sink_key", "sink_keys", "sinks_of"]


def sink_configs(config: Config, graph: Graph) -> dict[str, SinkConfig]:
    """The sink of each output, in the order in which the sinks are delivered to."""
    return sinks_of(config, graph.outputs)


def sinks_of(config: Config, outputs: Iterable[str]) -> dict[str, SinkConfig]:
    """The sink of each of these outputs, in their order."""
    return {output: config.sinks.get(output) or default_sink() for output in outputs}


def default_sink() -> SinkConfig:
    """The sink of an output without a sink in the config: files in the run directory."""
    files: Any = plugins.load(plugins.SINKS, "files")
    config: SinkConfig = files(type="files")
    return config


def sink_key(config: SinkConfig, output: str) -> str:
    """The identity of a sink: output, type and location. It does not depend on the folder of the run."""
    return f"{output} {config.type} {config.location(OpenContext(Path('.'), Path('run')), output)}"


def sink_keys(config: Config, graph: Graph) -> list[str]:
    """The identities of all sinks, in the order in which the sinks are delivered to."""
    return [sink_key(sink, output) for output, sink in sink_configs(config, graph).items()]


def in_run_directory(config: SinkConfig, output: str, context: OpenContext) -> bool:
    """True if the rows of the sink are in the run directory, so that they move together with it."""
    return config.location(context, output) != config.location(
        OpenContext(context.folder, context.cache / "elsewhere"), output
    )

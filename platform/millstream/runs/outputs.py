"""The config and the outputs of a run directory, for commands that only look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

from millstream.config.load import Loaded, read_back
from millstream.errors import ConfigError, MillstreamError
from millstream.log.contracts import OpenContext, SinkConfig
from millstream.runs.directory import RunDirectory
from millstream.runs.sinks import sink_configs
from millstream.steps.contracts import Output
from millstream.steps.graph import Graph, build_graph
from millstream.steps.output_rows import identity_columns, row_schema

__all__ = ["RunOutput", "graph_of", "load_run", "outputs_of"]


@dataclass(frozen=True)
class RunOutput:
    """One output of a run: where its rows are, and how to read them beside a run that goes on."""

    output: Output
    sink: SinkConfig
    context: OpenContext
    loaded: Loaded

    @property
    def identity(self) -> list[str]:
        """The columns that tell one row from another."""
        return identity_columns(self.output)

    @property
    def location(self) -> str:
        return self.sink.location(self.context, self.output.name)

    @property
    def found(self) -> bool:
        """Whether it is known where the rows are: not if that is up to an environment variable that is not there."""
        return not self.loaded.unset("sinks", self.output.name)

    def read(self) -> Iterator[pa.Table]:
        self.loaded.need("sinks", self.output.name)
        return self.sink.read(self.context, self.output.name, row_schema(self.output))


def load_run(directory: RunDirectory) -> Loaded:
    """The config that a run directory was last started with, to look at it: without the secrets that a run needs.

    An environment variable that is not set stays as its `${NAME}`; only what cannot do without it is refused, such
    as the rows of a sink whose path it is. `Contradiction`, if another version of Millstream has written the config.
    """
    if not directory.config.exists():
        message = f"{directory.path} was interrupted while it was made; run it again first"
        raise MillstreamError(message)
    resolved: dict[str, Any] = yaml.safe_load(directory.config.read_text())
    return read_back(resolved, directory.base, str(directory.config))


def graph_of(loaded: Loaded) -> Graph:
    """The steps of a run, as they were built for it; its sources need not be there any more."""
    fields = [field for source in loaded.config.logs for field in source.config.fields]
    try:
        return build_graph(loaded.config.steps, fields)
    except ConfigError:
        loaded.need("pipeline")  # it was built once, so that is why
        raise


def outputs_of(directory: RunDirectory, loaded: Loaded) -> dict[str, RunOutput]:
    """The outputs of a run, by name."""
    graph = graph_of(loaded)
    context = OpenContext(loaded.base, directory.path, loaded.config.name, fail_fast=True)
    configs = sink_configs(loaded.config, graph)
    return {name: RunOutput(graph.outputs[name], config, context, loaded) for name, config in configs.items()}

"""The config and the outputs of a run directory, for commands that only look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

from millstream.config.load import Loaded, read_config
from millstream.errors import MillstreamError
from millstream.log.contracts import Place, SinkConfig
from millstream.runs.directory import RunDirectory
from millstream.runs.sinks import sink_configs
from millstream.steps.contracts import Output
from millstream.steps.graph import Graph, build_graph
from millstream.steps.rows import identity_columns, row_schema

__all__ = ["RunOutput", "graph_of", "load_run", "outputs_of"]


@dataclass(frozen=True)
class RunOutput:
    """One output of a run: where its rows are, and how to read them beside a run that goes on."""

    output: Output
    sink: SinkConfig
    place: Place

    @property
    def identity(self) -> list[str]:
        """The columns that tell one row from another."""
        return identity_columns(self.output)

    @property
    def location(self) -> str:
        return self.sink.location(self.place, self.output.name)

    def read(self) -> Iterator[pa.Table]:
        return self.sink.read(self.place, self.output.name, row_schema(self.output))


def load_run(directory: RunDirectory) -> Loaded:
    """The config that a run directory was last started with."""
    if not directory.config.exists():
        message = f"{directory.path} was interrupted while it was made; run it again first"
        raise MillstreamError(message)
    resolved: dict[str, Any] = yaml.safe_load(directory.config.read_text())
    return read_config(resolved, directory.base, str(directory.config))


def graph_of(loaded: Loaded) -> Graph:
    """The steps of a run, as they were built for it; its sources need not be there any more."""
    return build_graph(loaded.config.steps, [field for source in loaded.config.logs for field in source.config.fields])


def outputs_of(directory: RunDirectory, loaded: Loaded) -> dict[str, RunOutput]:
    """The outputs of a run, by name."""
    graph = graph_of(loaded)
    place = Place(loaded.base, directory.path)
    configs = sink_configs(loaded.config, graph)
    return {name: RunOutput(graph.outputs[name], config, place) for name, config in configs.items()}

"""The config and the outputs of a run directory, for commands that only read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

from millstream import arguments
from millstream.config.absent_plugin import AbsentPlugin
from millstream.config.load import Loaded, read_back
from millstream.errors import ConfigError, MillstreamError
from millstream.log.contracts import OpenContext, Progress, SinkConfig
from millstream.runs.directory import RunDirectory
from millstream.runs.output_file import read_outputs
from millstream.runs.sinks import sinks_of
from millstream.steps.contracts import Output
from millstream.steps.graph import Graph, build_graph
from millstream.steps.output_rows import identity_columns, row_schema
from millstream.suggestions import suggestion

__all__ = ["RunOutput", "graph_of", "load_run", "output_of", "outputs_of"]


@dataclass(frozen=True)
class RunOutput:
    """One output of a run. Its rows can be read while the run continues."""

    output: Output
    sink: SinkConfig
    context: OpenContext
    loaded: Loaded

    @property
    def identity(self) -> list[str]:
        """The columns that identify a row."""
        return identity_columns(self.output)

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return row_schema(self.output)

    @property
    def location(self) -> str:
        """The place of the rows, without secrets."""
        return self.loaded.redact(self.sink.location(self.context, self.output.name))

    @property
    def found(self) -> bool:
        """True if the location of the rows is known, without environment variables or modules that are missing."""
        absent = isinstance(self.sink, AbsentPlugin)
        return not absent and not self.loaded.unset("sinks", self.output.name)

    def progress(self) -> Progress | None:
        """The progress of the sink, also while a run appends to it."""
        with self.loaded.redacting():
            self.loaded.need("sinks", self.output.name)
            return self.sink.progress(self.context, self.output.name)

    def read(self) -> Iterator[pa.Table]:
        with self.loaded.redacting():
            self.loaded.need("sinks", self.output.name)
            return self._redacting(self.sink.read(self.context, self.output.name, self.schema))

    def _redacting(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        with self.loaded.redacting():
            yield from rows


def load_run(directory: RunDirectory) -> Loaded:
    """The config of the last start in a run directory, for reading only: the secrets of a run need not be set.

    An environment variable that is not set stays in the config as `${NAME}`. Only an operation that needs its value
    fails, such as reading the rows of a sink whose path it is. Raises `Contradiction` if another version of Millstream
    wrote the config.
    """
    if not directory.config.exists():
        message = f"{directory.path} is incomplete, because its first start was interrupted; run it again first"
        raise MillstreamError(message)
    resolved: dict[str, Any] = yaml.safe_load(directory.config.read_text())
    return read_back(resolved, directory.config_folder, str(directory.config))


def graph_of(loaded: Loaded) -> Graph:
    """The steps of a run, built from its config; its sources need not exist any more."""
    config = loaded.config
    fields = [field for source in config.logs for field in source.config.fields]
    with loaded.redacting():
        try:
            return build_graph(config.steps, fields, config.source_times, config.sinks, config.cycle_limits)
        except ConfigError:
            loaded.need("pipeline")  # the graph was built once, so an unset variable is the cause
            raise


def outputs_of(directory: RunDirectory, loaded: Loaded) -> dict[str, RunOutput]:
    """The outputs of a run, by name. The steps are built only if the run directory does not have the outputs.

    So the rows in files can be read without the modules of the steps.
    """
    outputs = read_outputs(directory.output_file)
    if outputs is None:
        outputs = dict(graph_of(loaded).outputs)
    context = OpenContext(loaded.folder, directory.path, loaded.config.name, fail_fast=True)
    with loaded.redacting():
        configs = sinks_of(loaded.config, outputs)
    return {name: RunOutput(outputs[name], config, context, loaded) for name, config in configs.items()}


def output_of(directory: RunDirectory, loaded: Loaded, name: str) -> RunOutput:
    """One output of a run; `MillstreamError` if the run has no output of this name."""
    arguments.text("name", name, "predictions")
    outputs = outputs_of(directory, loaded)
    if name in outputs:
        return outputs[name]
    full = [each for each in outputs if each.endswith(f".{name}")]
    hint = suggestion(name, outputs, f"its outputs are {', '.join(outputs)}")
    if full:
        hint = f"; {'it has' if len(full) == 1 else 'its steps make'} {' and '.join(f'`{each}`' for each in full)}"
    message = f"{directory.path} has no output {name!r}{hint}"
    raise MillstreamError(message)

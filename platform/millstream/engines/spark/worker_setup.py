"""The worker setup: a file in the run directory, from the driver to Spark's planning process and workers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.log.ranges import records_schema

if TYPE_CHECKING:
    from millstream.steps.nodes import Node

__all__ = ["WorkerSetup"]


@dataclass(frozen=True)
class WorkerSetup:
    """Names and options from which each process builds its own logs and steps.

    `contexts` has for each source its folder, its cache and the pipeline; `worker_steps` names and options of steps.
    `import_path` has the folders in which the driver finds modules, so that the workers find a user's module too.
    `secrets` has the values that no log message and no error shows.
    """

    epoch_log: str
    first: int
    contexts: Mapping[str, tuple[str, str, str]]
    sources: Mapping[str, Mapping[str, Any]]
    worker_steps: Sequence[tuple[str, Mapping[str, Any]]]
    fields: list[str]
    tasks: int
    import_path: Sequence[str] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file, readable only by its owner: the options of a source may hold secrets."""
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(self), file)

    @staticmethod
    def read(path: Path) -> WorkerSetup:
        return WorkerSetup(**json.loads(path.read_text()))

    def logs(self) -> dict[str, Log]:
        from millstream.config import plugins  # not at the top: the planning process does not need it

        self._extend_import_path()
        opened: dict[str, Log] = {}
        for name, options in self.sources.items():
            config: Any = plugins.plugin_class(plugins.SOURCES, options["type"]).model_validate(options)
            folder, cache, pipeline = self.contexts[name]
            opened[name] = open_log(config, OpenContext(Path(folder), Path(cache), pipeline))
        return opened

    def steps(self) -> list[Node]:
        from millstream.config import plugins
        from millstream.config.pipeline import NamedStep
        from millstream.steps.nodes import build_node

        self._extend_import_path()
        schema = records_schema(self.fields)
        built: list[Node] = []
        for name, options in self.worker_steps:
            config: Any = plugins.plugin_class(plugins.STEPS, options["type"]).model_validate(options)
            built.append(build_node(NamedStep(name, config), schema))
            schema = built[-1].made
        return built

    def _extend_import_path(self) -> None:
        sys.path += [folder for folder in self.import_path if folder not in sys.path]

"""The setup of a task: all that a process of Spark needs to build the logs and the steps of a history."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from millstream.config.load import Loaded
from millstream.config.models import Config
from millstream.history.bounds import WHOLE, Bounds
from millstream.history.folder import HistoryFolder
from millstream.history.made_from import step_configs
from millstream.history.way import Way, way_to_model
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.redaction import Secrets
from millstream.steps.graph import build_graph

__all__ = ["Opened", "TaskSetup", "build_way", "open_logs", "open_once", "read_setup", "setup_of"]


@dataclass(frozen=True)
class TaskSetup:
    """The config, the folder and the model's step, as texts: Spark carries them to its processes.

    `base` is the folder in which relative paths of the config start. `steps` has the
    configs of the steps before the model, without secrets, and `secrets` has the values that no error shows.
    """

    config: Mapping[str, Any]
    base: str
    folder: str
    step: str
    steps: tuple[Mapping[str, Any], ...]
    import_path: tuple[str, ...]
    bounds: Bounds = WHOLE
    secrets: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Opened:
    """The logs and steps that a process has built from a setup, for all of its tasks."""

    setup: TaskSetup
    config: Config
    folder: HistoryFolder
    way: Way
    logs: Mapping[str, Log]
    secrets: Secrets


def setup_of(loaded: Loaded, way: Way, folder: Path, bounds: Bounds = WHOLE) -> TaskSetup:
    """The setup of the tasks of a history in this folder."""
    return TaskSetup(
        config=loaded.config.model_dump(mode="json"),
        base=str(loaded.folder),
        folder=str(folder.absolute()),
        step=way.model.name,
        steps=step_configs(loaded, way.steps),
        import_path=tuple(os.path.abspath(path) for path in sys.path),
        bounds=bounds,
        secrets=dict(loaded.secrets.values),
    )


def read_setup(text: str) -> TaskSetup:
    """The setup of a text, in a process that can import what it names."""
    content = json.loads(text)
    setup = TaskSetup(**{**content, "bounds": Bounds(**content["bounds"])})
    sys.path += [path for path in setup.import_path if path not in sys.path]
    return setup


@functools.lru_cache(maxsize=1)
def open_once(text: str) -> Opened:
    """Build the logs and the steps of a setup, once in a process."""
    setup = read_setup(text)
    config = Config.model_validate(setup.config)
    folder = HistoryFolder(Path(setup.folder))
    logs = open_logs(config, Path(setup.base), folder)
    return Opened(setup, config, folder, build_way(setup, config), logs, Secrets(setup.secrets))


def build_way(setup: TaskSetup, config: Config) -> Way:
    """The way to the model, with steps that have no state."""
    fields = [name for source in config.logs for name in source.config.fields]
    graph = build_graph(config.steps, fields, config.source_times, config.sinks, config.cycle_limits)
    return way_to_model(graph, setup.step)


def open_logs(config: Config, base: Path, folder: HistoryFolder) -> dict[str, Log]:
    """Open the log of each source."""
    return {
        source.name: open_log(source.config, OpenContext(base, folder.cache(source.name), config.name))
        for source in config.logs
    }

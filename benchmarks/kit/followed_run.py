"""A pipeline from one journal to another, followed by the command line while records are appended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.kit.millstream_process import MillstreamProcess
from millstream.errors import ConfigError
from millstream.log.journal import Journal, JournalReader

__all__ = ["FollowedJob", "FollowedRun"]

_PLUGINS = Path(__file__).parents[2] / "tests" / "plugin"
_START = 120.0


class FollowedJob:
    """A config in a folder of its own, with its input journal and its output journal."""

    def __init__(self, folder: Path, pipeline: Mapping[str, Any], engine: Mapping[str, Any], **more: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "follow.yaml"
        self.run = folder / "run"
        self.output = folder / "out"
        self._input = folder / "in"
        config = {
            "name": "follow",
            "source": {"type": "journal", "path": "in"},
            "pipeline": dict(pipeline),
            "sinks": {"predictions": {"type": "journal", "path": "out"}},
            "engine": dict(engine),
            **more,
        }
        self.config.write_text(yaml.safe_dump(config))

    def input(self) -> Journal:
        return Journal(self._input)

    def follow(self) -> FollowedRun:
        """The run, started now."""
        return FollowedRun(self)


class FollowedRun(MillstreamProcess):
    """The process of a followed job, and a reader of its output."""

    def __init__(self, job: FollowedJob) -> None:
        super().__init__(job.config, job.run, "--follow", plugins=_PLUGINS)
        self._output = job.output
        self._reader: JournalReader | None = None

    def rows(self) -> int:
        """The number of rows that a reader of the output sees now."""
        if self._reader is None:
            try:
                self._reader = JournalReader(self._output)
            except ConfigError:  # the output is not there yet
                return 0
        return self._reader.end()

    def wait(self, rows: int, every: float = 0.005, within: float = _START) -> None:
        """Return as soon as a reader of the output sees so many rows."""
        self.until(lambda: self.rows() >= rows or None, every=every, within=within)

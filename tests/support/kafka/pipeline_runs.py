"""Small pipelines over topics on the local engine: they run to the end of the topics, or follow them in a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.conditions import HANG_SECONDS, wait_until
from support.pipelines import InjectedCrash, crash

import millstream as ms
from millstream.api.execution import Hooks
from millstream.config.load import Loaded, read_config
from millstream.engines.local.engine import LocalEngine
from millstream.errors import ConfigError
from millstream.guarantees.crash_point import CrashPoint
from millstream.log.epochs import EpochReader, Event
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import outputs_of
from millstream.runs.summary import Summary

__all__ = ["Position", "Run", "documents"]

Position = tuple[str, int, int]
"""Source, number of the partition, offset."""


def documents(count: int, first: int = 0) -> list[bytes | None]:
    """Labelled documents in JSON; `first` is the number of the first one."""
    topics = ("harbour", "orchard", "glacier")
    made: list[bytes | None] = []
    for number in range(first, first + count):
        topic = topics[number * 7 % 3]
        document = {"text": f"{topic} word{number % 11} {topic}{number % 5}", "label": topic, "time": number}
        made.append(json.dumps(document).encode())
    return made


@dataclass
class Run:
    """A run of one config; `sources` are by name, without `type` and `bootstrap`."""

    folder: Path
    bootstrap: str
    sources: Mapping[str, Mapping[str, Any]]
    delivery: str = "exactly_once"
    max_records: int = 20
    stop: threading.Event = field(default_factory=threading.Event)

    def loaded(self) -> Loaded:
        return read_config(self.config(), self.folder, "topics.yaml")

    def config(self) -> dict[str, Any]:
        """The content of the config."""
        kafka = {"type": "kafka", "bootstrap": self.bootstrap, "timeout": f"{HANG_SECONDS}s"}
        return {
            "name": "topics",
            "sources": {name: {**kafka, **options} for name, options in self.sources.items()},
            "pipeline": {"steps": [{"type": "hashed_text"}, {"type": "classify", "model": {"type": "complement_nb"}}]},
            "guarantee": {"delivery": self.delivery},
            "engine": {"type": "local", "epoch": {"max_records": self.max_records, "max_wait": "1ms"}},
        }

    def go(self, **options: Any) -> Summary:
        """Run to the current end of the topics, or as the options say."""
        config = ms.Config.from_dict(self.config(), folder=self.folder)
        hooks = Hooks(engine=LocalEngine(), stop=self.stop, fire=crash)
        options = {"follow": False, **options}
        summary = ms.run(config, run=self.folder / "run", _hooks=hooks, **options).summary
        assert summary is not None
        return summary

    def crash(self, point: CrashPoint) -> None:
        try:
            self.go(crash=str(point))
        except InjectedCrash:
            return
        raise AssertionError(f"{point} was not reached")

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the topics until the block ends; an error that ends the run earlier is raised."""
        ended: list[BaseException] = []

        def follow() -> None:
            try:
                self.go(follow=True)
            except BaseException as error:
                ended.append(error)

        self.stop.clear()
        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join(HANG_SECONDS)
        assert not thread.is_alive()
        if ended:
            raise ended[0]

    def tables(self, output: str = "predictions") -> Iterator[pa.Table]:
        """The current rows of an output."""
        directory = RunDirectory(self.folder / "run")
        if directory.initialized:
            yield from outputs_of(directory, self.loaded())[output].read()

    def rows(self, output: str = "predictions") -> list[dict[str, Any]]:
        return [row for table in self.tables(output) for row in table.to_pylist()]

    def positions(self, output: str = "predictions") -> list[Position]:
        return sorted((row["_source"], row["_partition"], row["_offset"]) for row in self.rows(output))

    def reaches(self, count: int) -> None:
        """Wait until there are so many predictions."""
        wait_until(lambda: sum(table.num_rows for table in self.tables()) >= count, f"{count} predictions")

    def fails(self) -> None:
        """Wait until the run has ended with an error."""
        wait_until((self.folder / "run" / "error.txt").exists, "the error")

    def events(self) -> list[Event]:
        """All events of the epoch log so far, in order."""
        try:
            log = EpochReader(self.folder / "run" / "epochs")
        except (ConfigError, FileNotFoundError):  # the run has not started yet
            return []
        return [event for epoch in log.epochs(0) for event in epoch.events]

"""Golden runs: the pipelines of the conformance suite in one process, without a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from support.brokers import SharedBroker
from support.documents import EPOCHS, write_documents
from support.engines import Engines
from support.pipelines import Pipeline
from support.suite import PIPELINES, Recipe
from support.topics import produce_documents

from millstream.engines.local.engine import LocalEngine
from millstream.runs.summary import Summary

__all__ = ["Golden", "GoldenRuns"]

OUTPUTS = ("predictions", "topics", "rejects")


@dataclass(frozen=True)
class Golden:
    """A golden run: its pipeline, its name and its summary."""

    pipeline: Pipeline
    run: str
    summary: Summary

    def on(self, engines: Engines, engine_name: str, **options: Any) -> Pipeline:
        """The same pipeline over the same documents on another engine."""
        return replace(self.pipeline, engine=engines[engine_name], engine_name=engine_name, **options)


class GoldenRuns:
    """Golden runs by the name of the pipeline, each made at its first use."""

    def __init__(self, folder: Path, broker: Callable[[], SharedBroker]) -> None:
        self._folder, self._broker = folder, broker
        self._made: dict[str, Golden] = {}

    def __getitem__(self, name: str) -> Golden:
        if name not in self._made:
            self._made[name] = self._make(name, PIPELINES[name])
        return self._made[name]

    def _make(self, name: str, recipe: Recipe) -> Golden:
        folder = self._folder / name
        write_documents(folder / "documents")
        if recipe.change is not None:
            recipe.change(folder / "documents")
        topics = self._topics(folder) if recipe.topics else {}
        pipeline = Pipeline(folder, LocalEngine(), **recipe.options, **topics)
        summary = pipeline.run("golden")
        assert summary.epochs == EPOCHS
        return Golden(pipeline, "golden", summary)

    def _topics(self, folder: Path) -> dict[str, Any]:
        """The source and the sinks of a pipeline that reads its documents from a topic."""
        broker = self._broker()
        topic = broker.topic("documents")
        produce_documents(broker.bootstrap, topic, folder / "documents")
        kafka = {"type": "kafka", "bootstrap": broker.bootstrap}
        return {
            "source": {**kafka, "topic": topic},
            "sinks": {name: {**kafka, "topic": f"{topic}-{{run}}-{name}"} for name in OUTPUTS},
        }

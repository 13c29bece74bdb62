"""Pipelines for the simulator: the demo's, and others with keyed steps: a chain with windows, a graph, and a cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.documents import write_documents
from support.user_functions import __name__ as functions

from millstream.config.load import Loaded, load_config, read_config
from millstream.config.models import Config
from millstream.engines.simulated.world.logs import Recorded, recorded
from millstream.log.contracts import OpenContext

__all__ = [
    "CYCLE",
    "GRAPH",
    "KINDS",
    "SHADOWS",
    "SHARED",
    "TO_ALL",
    "PipelineFactory",
    "SimulatedPipeline",
    "demo_pipelines",
    "graph_pipelines",
    "keyed_pipelines",
]

DEMO = Path(__file__).parents[2] / "configs/demo.yaml"
MODEL = {"type": "complement_nb", "batch_size": 16}
STEPS: list[dict[str, Any]] = [
    {"type": "map", "name": "word", "function": f"{functions}:first_word", "adds": ["word"]},
    {"type": "per_key", "key": "word", "function": f"{functions}:seen", "adds": ["seen"], "on_error": "reject"},
    {"type": "hashed_text", "dimensions": 256},
    {"type": "popularity", "window": {"type": "tumbling", "size": "10m", "lateness": "1m"}, "threshold": 0.3},
]

WORD, SEEN = STEPS[0], STEPS[1]
GRAPH: list[dict[str, Any]] = [
    {**WORD, "from": "first"},
    {**WORD, "name": "other", "from": "second"},
    {**SEEN, "name": "seen", "from": ["word", "other", "first_words"]},
    {**WORD, "name": "first_words", "from": "first"},
    {"type": "classify", "name": "bayes", "model": {"type": "naive_bayes", "features": {}}, "from": "seen"},
    {"type": "classify", "name": "soft", "model": {"type": "softmax", "features": {}}, "from": ["other", "word"]},
    {**STEPS[-1], "from": "bayes"},
]
"""A fork, a union whose inputs share a source, a union of two sources, and two models."""
SHADOWS: list[dict[str, Any]] = [
    {"type": "hashed_text", "from": ["first", "second"], "dimensions": 64},
    {"type": "classify", "name": "label", "model": MODEL, "shadow": {"from": "models:/news@challenger"}},
    {**WORD, "from": "first"},
    {"type": "classify", "name": "bayes", "model": {"type": "naive_bayes", "features": {}},
     "shadow": {"from": "models:/news@challenger"}},
    {**STEPS[-1], "from": "label"},
]  # fmt: skip
"""Two models with shadows, which versions enter at random epochs and which take the models' places."""
SPREAD = "millstream_pipelines.label_propagation"
CYCLE: list[dict[str, Any]] = [
    {"type": "map", "name": "known", "from": ["first", "second"], "function": f"{functions}:known_by_word",
     "adds": ["id"]},
    {"type": "flat_map", "name": "words", "function": f"{SPREAD}:words", "adds": ["word", "hops", "news"]},
    {"type": "per_key", "name": "notes", "from": ["words", "shared"], "key": "id", "children": True,
     "function": f"{SPREAD}:document"},
    {"type": "per_key", "name": "shared", "from": "notes", "key": "word", "children": True,
     "function": f"{SPREAD}:word"},
    {"type": "per_key", "name": "seen", "from": ["notes", "words"], "key": "id",
     "function": f"{functions}:seen", "adds": ["seen"], "on_error": "reject"},
]  # fmt: skip
"""A cycle of two keyed steps, and a step whose state depends on the order of the rounds and of what entered them."""

SHARED: list[dict[str, Any]] = [
    {**WORD, "from": ["first", "second"]},
    {"type": "popularity", "name": "sessions", "of": "label", "by": "word", "emit": {"early": "3m"},
     "window": {"type": "session", "gap": "2m", "lateness": "10s"}},
    {**SEEN, "name": "seen", "from": "sessions.topics", "key": "topic"},
    {**WORD, "name": "other", "from": "second"},
    {"type": "join", "name": "pairs", "from": ["word", "other"], "by": "word", "within": "2m", "how": "left"},
    {"type": "top_k", "from": "seen", "of": "topic", "k": 1, "counters": 2, "window": {"type": "count", "size": 5}},
    {"type": "popularity", "name": "counts", "from": "word", "of": "label", "by": "word",
     "window": {"type": "count", "size": 3}},
    {"type": "dedupe", "name": "topics", "from": "counts.topics", "by": ["word", "topic"], "within": "5m"},
    {"type": "join", "name": "both", "from": ["topics", "sessions.topics"], "by": "topic", "within": "2m"},
    {"type": "flat_map", "name": "twice", "from": "pairs.unmatched", "function": f"{functions}:twice",
     "adds": ["half"]},
    {"type": "per_key", "name": "last", "key": ["word", "half"], "function": f"{functions}:rows",
     "ended": f"{functions}:close", "idle": "1m", "makes": ["words", "of"]},
]  # fmt: skip
"""Windows by key, in event time and by count, steps behind them and behind a join, and a step in the sequencer."""
TO_ALL: list[dict[str, Any]] = [
    {**WORD, "from": "first"},
    {**WORD, "name": "other", "from": "second"},
    {"type": "join", "name": "pairs", "from": ["word", {"stream": "other", "to": "all"}], "by": "word",
     "within": "2m", "how": "left", "lateness": "10s"},
    {**SEEN, "name": "seen", "from": "pairs", "key": "word"},
]  # fmt: skip
"""A join of which every reader gets one stream, and a keyed step behind it."""
KINDS: list[dict[str, Any]] = [
    {**WORD, "from": ["first", "second"]},
    {**WORD, "name": "other", "from": "second"},
    {"type": "popularity", "name": "predicates", "from": "word", "of": "label", "by": "word",
     "window": {"type": "predicate", "begins": f"{functions}:news", "lateness": "10s"}, "emit": {"early": "3m"}},
    {"type": "popularity", "name": "spans", "from": "word", "of": "label", "by": "word", "half_life": "4m",
     "window": {"type": "tumbling", "size": "2m", "lateness": "10s"}},
    {"type": "popularity", "name": "slides", "from": "word", "of": "label", "by": "word",
     "window": {"type": "sliding", "size": "3m", "slide": "1m", "lateness": "10s"}, "threshold": 0.5},
    {"type": "popularity", "name": "counts", "from": "word", "of": "label", "by": "word", "half_life_records": 4,
     "window": {"type": "count", "size": 2}},
    {"type": "join", "name": "pairs", "from": ["word", "other"], "by": "word", "how": "outer",
     "window": {"type": "tumbling", "size": "3m", "lateness": "10s"}},
    {**SEEN, "name": "seen", "from": "predicates.topics", "key": "topic"},
]  # fmt: skip
"""Windows by key of the other kinds, two half-lives, and a join in windows."""


@dataclass(frozen=True)
class SimulatedPipeline:
    """The config of a pipeline, and its first records."""

    config: Config
    records: Recorded


PipelineFactory = Callable[..., SimulatedPipeline]
"""Makes a pipeline with a delivery; optional are the distances of checkpoints and commits, a model, and a last step."""


def demo_pipelines(folder: Path) -> PipelineFactory:
    """Pipelines with the config of the demo; the folder is for caches."""

    def make(delivery: str, checkpoint_every: int = 1, commit_every: int = 1) -> SimulatedPipeline:
        guarantee = _guarantee(delivery, checkpoint_every, commit_every)
        sets = [f"guarantee.{name}={value}" for name, value in guarantee.items()]
        return _with_records(load_config(str(DEMO), sets), folder / "cache", 300)

    return make


def keyed_pipelines(folder: Path) -> PipelineFactory:
    """Pipelines with keyed steps; their documents are in the folder."""
    write_documents(folder / "documents", records=160)

    def make(
        delivery: str, checkpoint_every: int = 1, commit_every: int = 1, model: Any = MODEL, window: Any = STEPS[-1]
    ) -> SimulatedPipeline:
        config = {
            "name": "keyed",
            "source": {"type": "files", "path": "documents", "ends": True},
            "pipeline": {"steps": [*STEPS[:-1], {"type": "classify", "model": model}, window]},
            "guarantee": _guarantee(delivery, checkpoint_every, commit_every),
            "engine": {"type": "local"},
        }
        return _with_records(read_config(config, folder, "keyed.yaml"), folder / "cache", 160)

    return make


def graph_pipelines(folder: Path) -> PipelineFactory:
    """Pipelines with two sources and a graph of steps; their documents are in the folder."""
    write_documents(folder / "documents", records=120)

    def make(delivery: str, checkpoint_every: int = 1, commit_every: int = 1, steps: Any = GRAPH) -> SimulatedPipeline:
        sources = {
            name: {"type": "files", "path": f"documents/part{index}.jsonl", "ends": True}
            for index, name in enumerate(("first", "second"))
        }
        config = {
            "name": "graph",
            "sources": sources,
            "pipeline": {"steps": steps},
            "sinks": {step.get("name", step["type"]): {"type": "files"} for step in steps},
            "guarantee": _guarantee(delivery, checkpoint_every, commit_every),
            "engine": {"type": "local"},
        }
        return _with_records(read_config(config, folder, "graph.yaml"), folder / "cache", 60)

    return make


def _guarantee(delivery: str, checkpoint_every: int, commit_every: int) -> dict[str, Any]:
    return {"delivery": delivery, "checkpoint_every": checkpoint_every, "commit_every": commit_every}


def _with_records(loaded: Loaded, cache: Path, most: int) -> SimulatedPipeline:
    logs = {
        source.name: source.config.open(OpenContext(loaded.folder, cache / source.name))
        for source in loaded.config.logs
    }
    return SimulatedPipeline(loaded.config, recorded(logs, most))

"""`ms.explain`: the steps of a config, the processes that run them, and the effects of a crash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.api.argument_names import naming_arguments
from millstream.api.config import Overlays, Source, loaded_of
from millstream.api.graph_picture import Picture, picture_of
from millstream.config.load import Loaded
from millstream.config.sources import NamedSource
from millstream.engines.spark.placement import worker_steps
from millstream.engines.workers.legs import Place, legs_of
from millstream.guarantees.delivery import Delivery, order
from millstream.guarantees.explain import Outcome, outcomes, restart
from millstream.guarantees.validation import checked_graph
from millstream.log.contracts import OpenContext
from millstream.runs.sinks import sink_configs
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node

__all__ = ["explain", "explanation_of"]

_BY_KEY = "readers by key"


@dataclass(frozen=True)
class Explanation:
    """The explanation of a config: `content` is the object of `millstream explain --json`, `str()` the text."""

    content: Mapping[str, Any]
    picture: Picture
    """The graph of the steps: boxes and arrows."""

    def __str__(self) -> str:
        from millstream.api.explanation_text import explanation_text  # rich is needed for the text only

        return explanation_text(self.content)


def explain(config: Source, *, set: Mapping[str, Any] | None = None, overlays: Overlays = ()) -> Explanation:
    """Explain a config: its steps, outputs and sinks, and the worst effect of a crash at each point of an epoch.

    >>> found = explain({"name": "demo", "source": {"type": "generator"}, "pipeline": {"use": "text_topics"}})
    >>> found.content["order"]
    ['cut', 'process', 'deliver', 'checkpoint', 'commit']
    """
    with naming_arguments():
        return explanation_of(loaded_of(config, set, overlays))


def explanation_of(loaded: Loaded) -> Explanation:
    """Explain a config that is loaded already."""
    with loaded.redacting():
        graph = checked_graph(loaded)
        sources = {source.name: source.config.type for source in loaded.config.logs}
        sinks = {name: sink.type for name, sink in sink_configs(loaded.config, graph).items()}
        return Explanation(_description(loaded, graph), picture_of(graph, sources, sinks))


def _description(loaded: Loaded, graph: Graph) -> dict[str, Any]:
    config = loaded.config
    guarantee, delivery = config.guarantee, Delivery(config.guarantee.delivery)
    most = config.engine.epoch.max_records
    found = outcomes(delivery, guarantee.checkpoint_every, guarantee.commit_every, list(graph.outputs))
    resolved = loaded.resolved()
    return {
        "config": loaded.file,
        "name": config.name,
        "engine": config.engine.type,
        "epoch": resolved["engine"]["epoch"],
        "guarantee": resolved["guarantee"],
        "sources": [_source(source) for source in config.logs],
        "steps": _steps(loaded, graph),
        "outputs": _outputs(loaded, graph),
        "order": [str(point) for point in order(delivery)],
        "restart": restart(delivery),
        "crashes": [_crash(outcome, graph, most) for outcome in found],
    }


def _source(source: NamedSource) -> dict[str, Any]:
    times = source.times.model_dump(mode="json") if source.time.timed else {}
    return {"name": source.name, "type": source.config.type, "times": source.time.timed, **times}


def _steps(loaded: Loaded, graph: Graph) -> list[dict[str, Any]]:
    processes = _processes(loaded, graph)
    return [
        {
            "name": node.name,
            "type": node.config.type,
            "reads": list(node.reads),
            "copies": _copies(node, loaded, processes[node.name]),
            "runs": processes[node.name],
            "state": str(node.traits.scope),
            "ordered": node.traits.ordered,
            "deterministic": node.traits.deterministic,
            "idempotent": node.traits.idempotent,
            "ends": sorted(node.traits.ends),
            "options": _options(loaded, node),
        }
        for node in graph.steps
    ]


def _options(loaded: Loaded, node: Node) -> dict[str, Any]:
    dumped = {key: value for key, value in node.config.model_dump(mode="json").items() if key not in ("type", "name")}
    [path] = [step.path for step in loaded.config.steps if step.name == node.name]
    options: dict[str, Any] = loaded.redacted(dumped, path)
    return options


def _copies(node: Node, loaded: Loaded, runs: str) -> dict[str, int]:
    """The number of processes that get and hold all records, for each stream that goes to all."""
    if not node.traits.to_all:
        return {}
    return {node.reads[1]: loaded.config.engine.workers - 1 if runs == _BY_KEY else 1}


def _processes(loaded: Loaded, graph: Graph) -> dict[str, str]:
    """Return the kind of process that runs each step."""
    if loaded.config.engine.type == "local":
        if loaded.config.engine.workers == 1:
            return {node.name: "process" for node in graph.steps}
        words = {Place.READ: "one reader an epoch", Place.KEYED: _BY_KEY, Place.ONE: "sequencer"}
        return {node.name: words[leg.place] for leg in legs_of(graph).all for node in leg.steps}
    in_workers = {node.name for node in worker_steps(graph, loaded.config.engine)}
    return {node.name: "worker" if node.name in in_workers else "driver" for node in graph.steps}


def _outputs(loaded: Loaded, graph: Graph) -> list[dict[str, Any]]:
    context = OpenContext(loaded.folder, Path("runs") / loaded.config.name, loaded.config.name)
    made = {name: step for (step, _), name in graph.made.names.items() if name not in graph.made.shared}
    made |= {name: name for name in graph.made.records}
    return [
        {
            "name": name,
            "step": made.get(name),
            "row_of": graph.outputs[name].of,
            "sink": sink.type,
            "location": loaded.redact(sink.location(context, name)),
        }
        for name, sink in sink_configs(loaded.config, graph).items()
    ]


def _crash(outcome: Outcome, graph: Graph, most: int) -> dict[str, Any]:
    """Return an outcome as JSON, with epochs and records; rows of windows have no number of records."""

    def counted(epochs: int) -> dict[str, int]:
        return {"epochs": epochs, "records": epochs * most}

    def rows(by_output: Mapping[str, int]) -> dict[str, dict[str, int]]:
        return {
            name: counted(epochs) if graph.outputs[name].of == "record" else {"epochs": epochs}
            for name, epochs in by_output.items()
        }

    return {
        "after": f"{outcome.point}.{outcome.sink}" if outcome.sink else str(outcome.point),
        "trained_twice": counted(outcome.trained_twice),
        "lost": counted(outcome.lost),
        "rows_repeated": rows(outcome.rows_repeated),
        "rows_missing": rows(outcome.rows_missing),
    }

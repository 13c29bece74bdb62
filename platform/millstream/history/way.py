"""The way of records to a model: the steps from the sources to a step that classifies, and their legs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.config.load import Loaded
from millstream.engines.workers.legs import Leg, Legs, Place, legs_of
from millstream.errors import ConfigError
from millstream.registry.config_versions import names_versions
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.suggestions import suggestion

__all__ = ["Way", "refuse_versions", "way_to_model"]


@dataclass(frozen=True)
class Way:
    """The steps that a record passes before the model, in a graph that ends with the model.

    The legs divide these steps: the first leg runs by partition, the others by shards of their keys.
    """

    graph: Graph
    model: Node
    legs: Legs

    @property
    def steps(self) -> Sequence[Node]:
        """The steps before the model."""
        return [node for node in self.graph.steps if node.name != self.model.name]

    @property
    def records(self) -> pa.Schema:
        """The columns of the records that the model gets."""
        return self.model.records

    @property
    def sources(self) -> frozenset[str]:
        """The sources whose records may come to the model."""
        return frozenset().union(*(self.graph.streams[name].sources for name in self.model.reads))

    @property
    def keyed(self) -> Sequence[Leg]:
        """The legs whose steps have state by key."""
        return self.legs.keyed

    @property
    def last(self) -> Leg:
        """The leg that makes the records for the model."""
        [feeding] = _leg_of(self.legs, self.model).reads
        return self.legs.all[feeding]


def refuse_versions(loaded: Loaded, subject: str) -> None:
    """Refuse a config that takes a model from a registry."""
    if names_versions(loaded):
        message = f"{subject} begins without a model, so `from` has no meaning; give the model's `type` and options"
        raise ConfigError(message)


def way_to_model(graph: Graph, step: str | None = None) -> Way:
    """The way to the step that classifies, or to `step` if there are several; `ConfigError` for one without support."""
    model = _chosen(graph, step)
    wanted = {model.name}
    for node in reversed(graph.steps):  # topological order: all readers of a step come after it
        if node.name in wanted:
            wanted.update(maker for name in node.reads if (maker := graph.streams[name].maker) is not None)
    ending = replace(graph, steps=tuple(node for node in graph.steps if node.name in wanted))
    for node in ending.steps:
        if node.cycle:
            raise _refusal(model, node, "is in a cycle")
        if not node.traits.deterministic:
            raise _refusal(model, node, "is not deterministic")
        for name in node.reads:
            maker, _, output = name.partition(".")
            if output and output in graph.node(maker).windowed:
                raise _refusal(model, node, f"reads {name!r}, the rows of windows")
    legs = legs_of(ending)
    for leg in legs.one:
        for node in leg.steps:
            if node.name != model.name:
                raise _refusal(model, node, "needs all records in one process")
    feeding = _leg_of(legs, model).reads
    if len(feeding) > 1:
        raise _refusal(model, model, f"reads {', '.join(model.reads)}, which are made under different keys")
    return Way(ending, model, legs)


def _chosen(graph: Graph, step: str | None) -> Node:
    """The step that classifies, that of this name if several do."""
    found = {node.name: node for node in graph.steps if hasattr(node.step, "ask")}
    if not found:
        raise ConfigError(f"no step of the pipeline classifies; its steps are {', '.join(n.name for n in graph.steps)}")
    if step is None and len(found) > 1:
        raise ConfigError(f"several steps classify: {', '.join(found)}; name one of them with --step")
    if step is not None and step not in found:
        meant = suggestion(step, found, f"one of {', '.join(found)}")
        raise ConfigError(f"no step {step!r} classifies{meant}")
    return next(iter(found.values())) if step is None else found[step]


def _leg_of(legs: Legs, model: Node) -> Leg:
    [leg] = [leg for leg in legs.all if leg.place is Place.ONE and model in leg.steps]
    return leg


def _refusal(model: Node, node: Node, why: str) -> ConfigError:
    return ConfigError(
        f"the history cannot be computed up to {model.name!r}: step {node.name!r} {why}; supported are steps without "
        "state, and after them steps with state by key"
    )

"""The picture of a graph: boxes for sources, steps and sinks, and arrows with the grouping of the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node

__all__ = ["Arrow", "Box", "Picture", "picture_of"]


@dataclass(frozen=True)
class Box:
    """One box: its kind (source, step or sink), its name, and a second line."""

    kind: str
    name: str
    detail: str

    @property
    def key(self) -> str:
        """The kind and the name: unique in a picture."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Arrow:
    """The records from one box to another: the keys of both boxes, and a label. `back`: they enter the next round."""

    start: str
    end: str
    label: str
    back: bool = False


@dataclass(frozen=True)
class Picture:
    """Boxes and arrows; every box comes after those from which an arrow leads to it, unless the arrow leads back."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def picture_of(graph: Graph, sources: Mapping[str, str], sinks: Mapping[str, str]) -> Picture:
    """The picture of a graph; `sources` and `sinks` have the type of each source and of the sink of each output.

    The output `rejects`, to which every source leads, is left out.
    """
    boxes = [Box("source", name, kind) for name, kind in sources.items()]
    arrows = []
    for node in graph.steps:
        boxes.append(Box("step", node.name, str(node.config.type)))
        for stream in node.reads:
            maker = graph.streams[stream].maker
            start = f"source {stream}" if maker is None else f"step {maker}"
            output = stream.partition(".")[2]
            label = ", ".join(filter(None, [output, _grouping(node, stream)]))
            arrows.append(Arrow(start, f"step {node.name}", label, stream in node.back))
    for name, kind in sinks.items():
        makers = dict.fromkeys(step for (step, short), made in graph.made.names.items() if made == name != "rejects")
        makers |= dict.fromkeys([name] if name in graph.made.records else [])
        if makers:
            boxes.append(Box("sink", name, kind))
            arrows += [Arrow(f"step {step}", f"sink {name}", "") for step in makers]
    return Picture(tuple(boxes), tuple(arrows))


def _grouping(node: Node, stream: str) -> str:
    """The grouping of a stream's records for a step among processes; empty if any process may take a record."""
    if node.traits.to_all:
        return "to all" if stream == node.reads[1] else ""
    if node.traits.scope is Scope.KEYED:
        return f"by {', '.join(node.traits.key_fields)}"
    return "to one" if node.traits.scope is Scope.GLOBAL else ""

"""Placement of steps on Spark, whose workers get records before they are in order and before rejects are separated."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.config.document import Problem
from millstream.shadow_names import is_shadow
from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.suggestions import suggestion

__all__ = ["chain_from_sources", "driver_only", "placement_problems"]


def placement_problems(wanted: Mapping[str, str], graph: Graph) -> list[Problem]:
    """Problems with `engine.placement`: `wanted` has by step name "driver" or "worker"."""
    problems = []
    names = [node.name for node in graph.steps]
    chain = chain_from_sources(graph)
    for name, target in wanted.items():
        if name not in names:
            message = f"there is no such step; one of {', '.join(names)}{suggestion(name, names)}"
            problems.append(Problem(("engine", "placement", name), message))
            continue
        if target == "driver":
            continue
        for node in graph.steps[: names.index(name) + 1]:
            if node not in chain and node.name != name:
                continue
            reason = driver_only(node)
            if reason is None and node not in chain:
                reason = "is not in the chain of steps that begins with all sources, before the first fork or sink"
            if reason is None and wanted.get(node.name) == "driver":
                reason = "is configured to run on the driver"
            if reason is not None:
                subject = "it" if node.name == name else f"step {node.name!r} before it"
                message = f"this step cannot run in workers: {subject} {reason}; run it on the driver"
                problems.append(Problem(("engine", "placement", name), message))
                break
    return problems


def chain_from_sources(graph: Graph) -> list[Node]:
    """The steps that may run in workers if their traits allow it: each is the only reader of what it reads.

    A shadow does not count: its champion has state, so both get their records on the driver.

    The first one reads all sources, and the records of none has a sink: only the driver makes the rows of outputs.
    """
    chain: list[Node] = []
    before: str | None = None  # the step before, None: the sources
    while True:
        steps = [node for node in graph.steps if not is_shadow(node.name)]
        readers = [node for node in steps if before in (graph.streams[name].maker for name in node.reads)]
        if len(readers) != 1 or readers[0].name in graph.made.records:
            return chain
        [node] = readers
        if not graph.inputs[node.name].everything if before is None else node.reads != (before,):
            return chain
        chain.append(node)
        before = node.name


def driver_only(node: Node) -> str | None:
    """The reason why a step cannot run in Spark's workers; None if it can.

    In workers, records are not in order, and rejects are not separated yet.
    """
    if node.traits.scope is not Scope.STATELESS:
        return "has state"
    if node.traits.ordered:
        return "depends on the order of records"
    if not node.traits.deterministic:
        return "is not deterministic"
    if node.step.outputs:
        return "makes outputs"
    return None if node.traits.only_adds else "may change records or leave some out"

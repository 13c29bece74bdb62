"""Placement of steps on Spark, whose workers get records before they are in order and before rejects are separated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.config.document import Problem
from millstream.steps.contracts import Scope
from millstream.steps.graph import Node
from millstream.suggestions import suggestion

__all__ = ["driver_only", "placement_problems"]


def placement_problems(wanted: Mapping[str, str], steps: Sequence[Node]) -> list[Problem]:
    """Problems with `engine.placement`: `wanted` has by step name "driver" or "worker"."""
    problems = []
    names = [node.name for node in steps]
    for name, target in wanted.items():
        if name not in names:
            message = f"there is no such step; one of {', '.join(names)}{suggestion(name, names)}"
            problems.append(Problem(("engine", "placement", name), message))
            continue
        if target == "driver":
            continue
        ahead = steps[: names.index(name) + 1]
        for node in ahead:
            reason = driver_only(node)
            if reason is None and wanted.get(node.name) == "driver":
                reason = "is configured to run on the driver"
            if reason is not None:
                subject = "it" if node.name == name else f"step {node.name!r} before it"
                message = f"this step cannot run in workers: {subject} {reason}; run it on the driver"
                problems.append(Problem(("engine", "placement", name), message))
                break
    return problems


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

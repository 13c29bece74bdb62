"""Problems of a graph that is built: sinks without an output, and streams without a reader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from millstream.config.document import Problem
from millstream.config.pipeline import NamedStep
from millstream.shadow_names import is_shadow
from millstream.steps.graph import Graph
from millstream.steps.graph_outputs import LATE, REJECTS, makers_by_output
from millstream.suggestions import suggestion

__all__ = ["sink_problems", "unread_steps"]


def sink_problems(graph: Graph, sinks: Collection[str]) -> list[Problem]:
    """Problems with sinks whose output no step makes, or several.

    >>> from millstream.config.pipeline import NamedStep
    >>> from millstream.steps.graph import build_graph
    >>> from millstream_models.hashed_text import HashedText
    >>> graph = build_graph([NamedStep("features", HashedText(dimensions=1024))], ["text"])
    >>> sink_problems(graph, ["reject"])[0].message
    'no step makes this output; one of rejects; did you mean `rejects`?'
    """
    found = ((name, _sink_problem(graph, name, sinks)) for name in sinks)
    return [Problem(("sinks", name), message) for name, message in found if message]


def _sink_problem(graph: Graph, name: str, sinks: Collection[str]) -> str:
    makers = [node.name for node, _ in makers_by_output(graph.steps).get(name, ()) if not is_shadow(node.name)]
    full = [f"{maker}.{name}" for maker in makers]
    if name in graph.outputs:
        is_step = any(node.name == name for node in graph.steps)
        if is_step and makers and name not in makers and not graph.is_chain:
            return f"{name!r} is a step, and an output of the step {makers[0]!r}; write `{full[0]}`, or rename the step"
        return ""
    if len(full) > 1:
        return f"several steps make this output; write {' or '.join(f'`{each}`' for each in full)}"
    if full and full[0] in sinks:
        return f"`{full[0]}` is the same output; keep one of the two sinks"
    if name in graph.sources:
        step = f'{{type: filter, name: all_records, from: {name}, function: "operator:truth"}}'
        return (
            f"{name!r} is a source, and a sink gets what a step makes; add the step `{step}`, and write `all_records`"
        )
    maker, _, short = name.partition(".")
    if short in (LATE, REJECTS) and short in graph.outputs and any(node.name == maker for node in graph.steps):
        return f"`{short}` is one output of all steps, without full names; write `{short}`"
    meant = suggestion(name, [*graph.outputs, *(node.name for node in graph.steps)])
    return f"no step makes this output; one of {', '.join(graph.outputs)}{meant}"


def unread_steps(graph: Graph, steps: Sequence[NamedStep]) -> Iterable[Problem]:
    """Problems with steps whose records nobody reads and no sink gets, and that make no output either.

    The last step of a chain may be such a step: a config without `from` keeps its meaning.
    """
    if all(step.reads is None for step in steps):
        return
    read = {graph.streams[stream].maker for node in graph.steps for stream in node.reads}
    for node in graph.steps:
        makes = any(output.name != "rejects" for output in node.step.outputs)
        if not makes and node.name not in read and node.name not in graph.made.records:
            message = (
                f"no step reads the records of {node.name!r}, and no sink gets them; "
                f"read them, add `{node.name}` to `sinks`, or remove the step"
            )
            yield Problem(node.path, message)

"""Validation of a config: the checks that need its steps built, and nothing run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from millstream.config.document import Problem
from millstream.config.load import Loaded
from millstream.config.models import Config
from millstream.guarantees.delivery import Delivery
from millstream.log.contracts import OpenContext
from millstream.steps.graph import Graph, Node, check_graph, sink_problems
from millstream.steps.placement import placement_problems

__all__ = ["checked_graph"]


def checked_graph(loaded: Loaded) -> Graph:
    """The steps of a config, built; `ConfigError` with all that can be found wrong without running it."""
    config = loaded.config
    context = OpenContext(loaded.base, loaded.base, config.name)
    looks = (_source_problems, _sink_problems, _shared_sinks, _circles)
    problems = [problem for look in looks for problem in look(config, context)]
    fields = [field for source in config.logs for field in source.config.fields]
    graph, found = check_graph(config.steps, fields)
    problems += found
    if graph is not None:
        problems += sink_problems(graph, config.sinks)
        problems += _impossible(config, graph.steps)
    if graph is None or problems:
        loaded.refuse(problems)
    return graph


def _impossible(config: Config, steps: Sequence[Node]) -> list[Problem]:
    """The problems of a guarantee or an engine that these steps cannot serve."""
    problems = []
    if Delivery(config.guarantee.delivery) is Delivery.EXACTLY_ONCE:
        for node in steps:
            if not node.traits.deterministic:
                message = (
                    f"exactly_once is impossible: step {node.name!r} is not deterministic, so a replay after a crash "
                    "would make other rows; choose at_least_once or at_most_once"
                )
                problems.append(Problem(("guarantee", "delivery"), message))
    return problems + placement_problems(config.engine.placement, steps)


def _source_problems(config: Config, context: OpenContext) -> list[Problem]:
    return [
        Problem((*source.path, option) if option else source.path, message)
        for source in config.logs
        for option, message in source.config.problems(context)
    ]


def _sink_problems(config: Config, context: OpenContext) -> list[Problem]:
    return [
        Problem(("sinks", output, option) if option else ("sinks", output), message)
        for output, sink in config.sinks.items()
        for option, message in sink.problems(context)
    ]


def _circles(config: Config, context: OpenContext) -> list[Problem]:
    """The sinks that write where a source reads."""
    return [
        Problem(
            ("sinks", output),
            f"it writes where {source.name} reads, so that its rows would come back as records, and those again; "
            "give it a place of its own",
        )
        for output, sink in config.sinks.items()
        for source in config.logs
        if source.config.reads(context, sink.location(context, output))
    ]


def _shared_sinks(config: Config, context: OpenContext) -> list[Problem]:
    """The sinks whose rows would lie where those of another one do."""
    problems: list[Problem] = []
    taken: dict[str, str] = {}
    for output, sink in config.sinks.items():
        location = sink.location(context, output)
        first = taken.setdefault(os.path.normpath(location), output)
        if first != output:
            message = f"sinks {first!r} and {output!r} both lie in {location}; give each output a place of its own"
            problems.append(Problem(("sinks", output), message))
    return problems

"""Whether a config can be run as it says: the checks that need its steps built, and nothing run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from millstream.config.document import Problem
from millstream.config.load import Loaded
from millstream.config.models import Config
from millstream.guarantees.delivery import Delivery
from millstream.log.contracts import Place
from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph, Node, check_graph, sink_problems
from millstream.suggestions import suggestion

__all__ = ["checked_graph", "driver_only", "impossible"]


def checked_graph(loaded: Loaded) -> Graph:
    """The steps of a config, built; `ConfigError` with all that can be found wrong without running it."""
    config = loaded.config
    place = Place(loaded.base, loaded.base, config.name)
    looks = (_source_problems, _sink_problems, _shared_sinks, _circles)
    problems = [problem for look in looks for problem in look(config, place)]
    fields = [field for source in config.logs for field in source.config.fields]
    graph, found = check_graph(config.steps, fields)
    problems += found
    if graph is not None:
        problems += sink_problems(graph, config.sinks)
        problems += impossible(config, graph.steps)
    if graph is None or problems:
        loaded.refuse(problems)
    return graph


def impossible(config: Config, steps: Sequence[Node]) -> list[Problem]:
    """What a config asks of its guarantee or its engine that these steps cannot give."""
    problems = []
    if Delivery(config.guarantee.delivery) is Delivery.EXACTLY_ONCE:
        for node in steps:
            if not node.traits.deterministic:
                message = (
                    f"exactly_once is impossible: step {node.name!r} is not deterministic, so a replay after a crash "
                    "would make other rows; choose at_least_once or at_most_once"
                )
                problems.append(Problem(("guarantee", "delivery"), message))
    return problems + _misplaced(config, steps)


def _misplaced(config: Config, steps: Sequence[Node]) -> list[Problem]:
    """Wishes of `engine.run` that cannot be met: Spark's workers get records before they are in order."""
    problems = []
    names = [node.name for node in steps]
    for name, where in config.engine.run.items():
        if name not in names:
            message = f"there is no such step; one of {', '.join(names)}{suggestion(name, names)}"
            problems.append(Problem(("engine", "run", name), message))
            continue
        if where == "driver":
            continue
        ahead = steps[: names.index(name) + 1]
        for node in ahead:
            why = driver_only(node)
            if why is None and config.engine.run.get(node.name) == "driver":
                why = "is to run on the driver"
            if why is not None:
                place = "it" if node.name == name else f"step {node.name!r} before it"
                message = f"this step cannot run in workers: {place} {why}; leave it to the driver"
                problems.append(Problem(("engine", "run", name), message))
                break
    return problems


def driver_only(node: Node) -> str | None:
    """Why a step cannot run in Spark's workers, where records are not in order and rejects not set apart yet."""
    if node.traits.scope is not Scope.STATELESS:
        return "has state"
    if node.traits.ordered:
        return "depends on the order of records"
    if not node.traits.deterministic:
        return "is not deterministic"
    if node.step.outputs:
        return "makes outputs"
    return None if node.traits.only_adds else "may change records or leave some out"


def _source_problems(config: Config, place: Place) -> list[Problem]:
    return [
        Problem((*source.path, option) if option else source.path, message)
        for source in config.logs
        for option, message in source.config.problems(place)
    ]


def _sink_problems(config: Config, place: Place) -> list[Problem]:
    return [
        Problem(("sinks", output, option) if option else ("sinks", output), message)
        for output, sink in config.sinks.items()
        for option, message in sink.problems(place)
    ]


def _circles(config: Config, place: Place) -> list[Problem]:
    """The sinks that write where a source reads."""
    return [
        Problem(
            ("sinks", output),
            f"it writes where {source.name} reads, so that its rows would come back as records, and those again; "
            "give it a place of its own",
        )
        for output, sink in config.sinks.items()
        for source in config.logs
        if source.config.reads(place, sink.location(place, output))
    ]


def _shared_sinks(config: Config, place: Place) -> list[Problem]:
    """The sinks whose rows would lie where those of another one do."""
    problems: list[Problem] = []
    taken: dict[str, str] = {}
    for output, sink in config.sinks.items():
        location = sink.location(place, output)
        first = taken.setdefault(os.path.normpath(location), output)
        if first != output:
            message = f"sinks {first!r} and {output!r} both lie in {location}; give each output a place of its own"
            problems.append(Problem(("sinks", output), message))
    return problems

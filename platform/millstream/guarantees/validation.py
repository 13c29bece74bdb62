"""Validation of a config: checks that need the built steps, but no run."""

from __future__ import annotations

import os

from millstream.config.document import Problem
from millstream.config.load import Loaded
from millstream.config.models import Config
from millstream.extras import need
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.notebook_classes import notebook_problems
from millstream.java import missing_java
from millstream.log.checked_source import problems_of
from millstream.log.contracts import OpenContext
from millstream.registry.config_versions import fetch_versions
from millstream.state.shard_limit import ShardLimit
from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph, check_graph
from millstream.steps.graph_problems import sink_problems, unread_steps
from millstream.steps.placement import placement_problems

__all__ = ["checked_graph"]


def checked_graph(loaded: Loaded, *, packages: bool = True, begun: bool = False) -> Graph:
    """Build the steps of a config; `ConfigError` with all problems that can be found without a run.

    A model that the config takes from a registry is fetched for its type and its options.
    With `packages` false, the packages of the engine and of MLflow need not be installed, nor Java. With `begun` true,
    the run has learned the old labels of its config, so these need not be there.
    """
    with loaded.redacting():
        return _checked_graph(fetch_versions(loaded)[0], packages, begun)


def _checked_graph(loaded: Loaded, packages: bool, begun: bool) -> Graph:
    config = loaded.config
    context = OpenContext(loaded.folder, loaded.folder, config.name)
    checks = (_source_problems, _sink_problems, _shared_sinks, _cycles)
    problems = [problem for check in checks for problem in check(config, context)]
    problems += [] if begun else _warm_start_problems(config, context)
    problems += notebook_problems(config)
    problems += _missing_packages(config) if packages else []
    fields = [field for source in config.logs for field in source.config.fields]
    graph, found = check_graph(config.steps, fields, config.source_times, config.sinks, config.cycle_limits)
    problems += found
    if graph is not None:
        problems += sink_problems(graph, config.sinks)
        problems += unread_steps(graph, config.steps)
        problems += _unsupported(config, graph)
    if graph is None or problems:
        loaded.refuse(problems)
    return graph


def _unsupported(config: Config, graph: Graph) -> list[Problem]:
    """Problems with a guarantee or an engine placement that these steps do not support."""
    problems = []
    if Delivery(config.guarantee.delivery) is Delivery.EXACTLY_ONCE:
        for node in graph.steps:
            if not node.traits.deterministic:
                message = (
                    f"exactly_once is impossible: step {node.name!r} is not deterministic, so a replay after a crash "
                    "would make other rows; choose at_least_once or at_most_once"
                )
                problems.append(Problem(("guarantee", "delivery"), message))
    classifiers = [node.name for node in graph.steps if hasattr(node.step, "ask")]
    if config.mlflow and config.mlflow.model is not None and len(classifiers) != 1:
        found = f"several do: {', '.join(classifiers)}" if classifiers else "none does"
        message = f"a run registers the model of the one step that classifies, and here {found}"
        problems.append(Problem(("mlflow", "model"), message))
    return problems + _small_limits(config, graph) + placement_problems(config.engine.placement, graph)


def _small_limits(config: Config, graph: Graph) -> list[Problem]:
    """Problems with limits of keyed steps that are too small to be divided between the shards."""
    problems = []
    for node in graph.steps:
        option: str | None = getattr(node.config, "shard_limit", None)
        if option is not None and node.traits.scope is Scope.KEYED:
            limit = ShardLimit(option, getattr(node.config, option), config.guarantee.shards)
            problems += [Problem((*node.path, option), limit.problem)] if limit.problem is not None else []
    return problems


def _missing_packages(config: Config) -> list[Problem]:
    """Problems with an engine or a recorder whose packages, or whose Java, are not installed."""
    problems = []
    if config.engine.type == "spark" and (missing := need("spark", "the engine spark") or missing_java()):
        message = f"{missing}; or choose the local engine: `engine: {{type: local}}`, `--set engine.type=local`"
        problems.append(Problem(("engine", "type"), message))
    if config.mlflow and (missing := need("mlflow", "recording in MLflow")):
        problems.append(Problem(("mlflow",), missing))
    return problems


def _source_problems(config: Config, context: OpenContext) -> list[Problem]:
    return [
        Problem((*source.path, option) if option else source.path, message)
        for source in config.logs
        for option, message in problems_of("source", source.config, context)
    ]


def _warm_start_problems(config: Config, context: OpenContext) -> list[Problem]:
    """Problems with the sources of old labels."""
    problems: list[Problem] = []
    for step in config.steps:
        source = getattr(step.config, "warm_start", None)
        if source is None:
            continue
        path = (*step.path, "warm_start")
        if not source.bounded:
            message = "this source never ends, so the stream would never begin; take a bounded one"
            problems.append(Problem(path, message))
        found = problems_of("source", source, context)
        problems += [Problem((*path, option) if option else path, message) for option, message in found]
    return problems


def _sink_problems(config: Config, context: OpenContext) -> list[Problem]:
    return [
        Problem(("sinks", output, option) if option else ("sinks", output), message)
        for output, sink in config.sinks.items()
        for option, message in problems_of("sink", sink, context)
    ]


def _cycles(config: Config, context: OpenContext) -> list[Problem]:
    """Problems with sinks that write to a location that a source reads."""
    return [
        Problem(
            ("sinks", output),
            f"it writes to the location that {source.name} reads, so that its rows would become records again; "
            "give it a location of its own",
        )
        for output, sink in config.sinks.items()
        for source in config.logs
        if source.config.reads(context, sink.location(context, output))
    ]


def _shared_sinks(config: Config, context: OpenContext) -> list[Problem]:
    """Problems with sinks that write to the location of another sink."""
    problems: list[Problem] = []
    taken: dict[str, str] = {}
    for output, sink in config.sinks.items():
        location = sink.location(context, output)
        first = taken.setdefault(os.path.normpath(location), output)
        if first != output:
            message = f"sinks {first!r} and {output!r} both write to {location}; give each output a location of its own"
            problems.append(Problem(("sinks", output), message))
    return problems

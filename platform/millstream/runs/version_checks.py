"""Checks of a version before it enters a step: of the steps before it, of its columns and of its label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.config.load import Loaded
from millstream.errors import ConfigError, Contradiction
from millstream.runs.checkpoint_model import way_to
from millstream.runs.model_versions import step_options
from millstream.state.model_version import ModelVersion
from millstream.steps.graph import Graph

__all__ = ["check_version"]


def check_version(loaded: Loaded, graph: Graph, step: str, uri: str, version: ModelVersion) -> None:
    """Refuse a version that cannot enter the step `step`, which may be a shadow; `uri` is its address in the registry.

    Refuses a version whose records came through other steps than those of this pipeline, that learned another label, or
    whose model cannot be built for the records of the step.
    """
    node = graph.node(step)
    before = [step_options(loaded, each) for each in way_to(graph, node)]
    trained = version.steps[:-1]
    if _without_names(before) != _without_names(trained):
        message = (
            f"{uri} was trained on the records of {_described(trained)}, and step {step!r} gets those of "
            f"{_described(before)}: its features mean something else here; use the same steps before it"
        )
        raise Contradiction(message)
    config: Any = node.config
    if (label := version.steps[-1].get("label", config.label)) != config.label:
        message = (
            f"{uri} has learned the labels of the field {label!r}, and step {step!r} has `label: {config.label}`: its "
            "classes mean something else here; use the same field"
        )
        raise Contradiction(message)
    try:
        config.build(node.records).enter(version)
    except ConfigError as error:
        message = f"{uri} cannot enter the step {step!r}: {error}"
        raise Contradiction(message) from None


def _without_names(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{key: value for key, value in each.items() if key != "name"} for each in steps]


def _described(steps: Sequence[Mapping[str, Any]]) -> str:
    """The steps in a few words."""
    shown = _without_names(steps)
    return ", then ".join(", ".join(f"{key}: {value}" for key, value in each.items()) for each in shown) or "the log"

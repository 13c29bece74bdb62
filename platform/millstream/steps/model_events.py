"""The events of an epoch that change a model: a version enters a step, or a shadow takes its champion's place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from millstream.errors import Contradiction
from millstream.log.epochs import Epoch, NewModel, Swap
from millstream.shadow_names import shadow_of
from millstream.state.model_version import ModelVersion
from millstream.steps.classify import Classifier
from millstream.steps.nodes import Node

__all__ = ["NO_VERSIONS", "Versions", "take_models"]


class Versions(Protocol):
    """The versions that the epochs of a run name."""

    def load(self, digest: str) -> ModelVersion: ...


class _NoVersions:
    def load(self, digest: str) -> ModelVersion:
        message = f"the version {digest} of a model is not known here"
        raise Contradiction(message)


NO_VERSIONS: Versions = _NoVersions()
"""The versions of a run whose epochs name none."""


def take_models(epoch: Epoch, nodes: Iterable[Node], versions: Versions) -> None:
    """Let these steps take the models that they have from the first record of this epoch on.

    Events of steps that are elsewhere, or not in the pipeline, change nothing here.
    """
    events = [event for event in epoch.events if isinstance(event, NewModel | Swap)]
    if not events:
        return
    steps: dict[str, Any] = {node.name: node.step for node in nodes if isinstance(node.step, Classifier)}
    for event in events:
        if event.step not in steps:
            continue
        if isinstance(event, NewModel):
            steps[event.step].enter(versions.load(event.digest))
        elif shadow_of(event.step) in steps:
            steps[event.step].take_over(steps[shadow_of(event.step)])
        else:
            message = (
                f"epoch {epoch.number} gives the step {event.step!r} the model of its shadow, and the config has no "
                f"shadow of this step; give the step the option `shadow`"
            )
            raise Contradiction(message)

"""The ways to train a model on a history: a module each, with a function `learn`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from millstream.errors import ConfigError

if TYPE_CHECKING:
    from millstream.history.training_job import Training
    from millstream.steps.nodes import Node

__all__ = ["DEFAULT", "HOWS", "SEARCH", "check_model", "learner"]

HOWS: Mapping[str, str] = {
    "sequential": "millstream.history.how.sequential",
    "averaged": "millstream.history.how.averages",
}
"""The module of each way by its name."""
DEFAULT = "sequential"
"""The way that makes the model of a run."""

SEARCH = "search"
"""The way that trains the best of several models, by the default way."""


def check_model(how: str, node: Node) -> None:
    """Refuse a model that cannot be trained in this way."""
    if node.config.warm_start is not None:
        message = "training on a history begins without a model, so `warm_start` has no meaning; leave it out"
        raise ConfigError(message)
    check: Callable[[Node], None] | None = getattr(importlib.import_module(HOWS[how]), "check", None)
    if check is not None:
        check(node)


def learner(how: str) -> Callable[[Training], Mapping[str, Any]]:
    """The function that learns: it writes the version of the model into the folder of the training.

    It returns more facts about the version, for the result.
    """
    found: Callable[[Training], Mapping[str, Any]] = importlib.import_module(HOWS[how]).learn
    return found

"""Averaged training: tasks learn parts of a history apart from each other, and one task puts them together.

For a model whose state adds up, the sum of the parts is the state of a run, bit for bit. For one that can be averaged,
the history is learned in rounds, and the average is another model than that of a run. Other models are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.errors import ConfigError
from millstream.history.how.labels import number_labels
from millstream.history.how.rounds import learn_rounds
from millstream.history.how.sums import learn_sums
from millstream.history.how.task_costs import longest_seconds
from millstream.history.training_job import Training
from millstream.steps.nodes import Node

__all__ = ["check", "learn"]


def check(node: Node) -> None:
    """Refuse a model whose state neither adds up nor can be averaged."""
    step: Any = node.step
    if not (getattr(step, "adds_up", False) or getattr(step, "averages", False)):
        message = (
            f"parts of a history cannot be learned apart from each other by the model of step {node.name!r}, "
            f"{node.config.model.type}: its state neither adds up, as that of naive_bayes without `half_life` and with "
            "`batch_size: 1`, nor has weights to average, as those of softmax, ftrl and sgd"
        )
        raise ConfigError(f"{message}; train with `--how sequential`")


def learn(training: Training) -> Mapping[str, Any]:
    """Number the labels, then learn the parts."""
    continues = training.work.learned.exists()
    labels = number_labels(training)
    step: Any = training.model.step
    facts = learn_sums(training, labels) if step.adds_up else learn_rounds(training, labels)
    return {**facts, **longest_seconds(training.work, continues)}

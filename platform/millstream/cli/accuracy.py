"""The lines of a report about the accuracy of a model and of the two baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["accuracy_lines"]

_BASELINES = {"no_change": "previous label", "majority": "most common label"}


def accuracy_lines(
    accuracy: float | None,
    baselines: Mapping[str, float] | None,
    how: str = "",
    steps: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """Yield the lines of a report, none if no record had a label; `how` describes how the accuracy was measured.

    If several `steps` predict, the lines are about each of them.

    >>> print(*accuracy_lines(0.8912, {"no_change": 0.186, "majority": 0.223}, how=", so far"), sep="\\n")
      accuracy   0.8912, so far; baselines: previous label 0.1860, most common label 0.2230
    >>> print(*accuracy_lines(0.8912, {"no_change": 0.928, "majority": 0.223}), sep="\\n")
      accuracy   0.8912; baselines: previous label 0.9280, most common label 0.2230
                 a better prediction than the model's, without reading the records: previous label

    >>> steps = {"bayes": {"accuracy": 0.9, "baselines": {"no_change": 0.186, "majority": 0.223}}}
    >>> print(*accuracy_lines(0.9, None, steps=steps))
      accuracy   bayes 0.9000; baselines: previous label 0.1860, most common label 0.2230
    """
    for step, each in (steps or {}).items():
        of_step = accuracy_lines(each["accuracy"], each["baselines"], how)
        yield from (line.replace("accuracy   ", f"accuracy   {step} ", 1) for line in of_step)
    if steps or accuracy is None or baselines is None:
        return
    shares = ", ".join(f"{name} {baselines[key]:.4f}" for key, name in _BASELINES.items())
    yield f"  accuracy   {accuracy:.4f}{how}; baselines: {shares}"
    better = [name for key, name in _BASELINES.items() if baselines[key] > accuracy]
    if better:
        yield f"             a better prediction than the model's, without reading the records: {', '.join(better)}"

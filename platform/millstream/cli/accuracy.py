"""An accuracy in words, beside what it would be without reading the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["accuracy_lines"]

_GUESSES = {"no_change": "the label before", "majority": "the most common one"}


def accuracy_lines(accuracy: float | None, baselines: Mapping[str, float] | None, how: str = "") -> Iterator[str]:
    """Lines for a report, none if no record had a label; `how` says how the accuracy was measured.

    >>> print(*accuracy_lines(0.8912, {"no_change": 0.186, "majority": 0.223}, how=", so far"), sep="\\n")
      accuracy   0.8912, so far; the label before would give 0.1860, the most common one 0.2230
    >>> print(*accuracy_lines(0.8912, {"no_change": 0.928, "majority": 0.223}), sep="\\n")
      accuracy   0.8912; the label before would give 0.9280, the most common one 0.2230
                 the label before does better than the model, without reading anything
    """
    if accuracy is None or baselines is None:
        return
    before, most_common = baselines["no_change"], baselines["majority"]
    guesses = f"the label before would give {before:.4f}, the most common one {most_common:.4f}"
    yield f"  accuracy   {accuracy:.4f}{how}; {guesses}"
    better = [guess for name, guess in _GUESSES.items() if baselines[name] > accuracy]
    if better:
        do = "does" if len(better) == 1 else "do"
        yield f"             {' and '.join(better)} {do} better than the model, without reading anything"

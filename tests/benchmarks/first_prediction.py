"""What the compiled models add to a start, once they have been compiled."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.children import ask
from benchmarks.figures import AtMost, Figure, Measurement, Setting, spread
from benchmarks.text_learners import first

__all__ = ["MEASUREMENTS"]

_MODEL = "naive_bayes"


def _measure(setting: Setting) -> Iterator[Figure]:
    ask(first, model=_MODEL)  # compiles it, where it is not yet
    seconds = [float(ask(first, model=_MODEL)["seconds"]) for _ in range(setting.rounds)]
    yield Figure("compiled_start", statistics.median(seconds), "s", AtMost(0.5), spread(seconds, ".2f"))


MEASUREMENTS = (
    Measurement(
        "compiled_start",
        ("compiled_start",),
        "a process that has numpy and Arrow, from there to the first prediction of naive_bayes: numba's import, and "
        "what was compiled before and is kept on disk",
        _measure,
    ),
)

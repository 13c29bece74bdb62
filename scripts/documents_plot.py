"""The plot of docs/documents.md: the accuracy of both models of `configs/documents.yaml` over the stream.

    python scripts/documents_plot.py RUN docs/documents.png

RUN is a run directory of the config.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

import millstream as ms
from millstream.study.plots.style import POINTS, colours_of, legend_below, line, panels

MODELS = {"tf_idf": "tf-idf weights", "plain": "counts of words"}
PART = 1000
"""Documents in a point of the plot."""


def accuracy(run: ms.Run, model: str) -> np.ndarray:
    """The accuracy of a model in each part of the stream."""
    rows = run.output(f"{model}.predictions")
    correct = pc.fill_null(pc.equal(rows["predicted"], rows["label"]), False).to_numpy()
    return POINTS * np.array([each.mean() for each in np.split(correct, range(PART, len(correct), PART))])


def draw(run: ms.Run, target: Path) -> None:
    """Draw the accuracy of each model, and the difference."""
    found = {name: accuracy(run, model) for model, name in MODELS.items()}
    figure, [[axes, difference]] = panels(
        1, 2, f"Predictions before learning, by {PART:,} documents: words weighed by tf-idf, and counted", height=3.2
    )
    colours = colours_of(list(found))
    for name, values in found.items():
        axes.plot(PART * np.arange(1, len(values) + 1), values, color=colours[name], marker=".")
    weighed, counted = found.values()
    difference.bar(PART * np.arange(1, len(weighed) + 1), weighed - counted, width=0.7 * PART, color="#555555")
    axes.set_ylabel("accuracy (%)", fontsize=9)
    difference.set_ylabel("tf-idf less counts (percentage points)", fontsize=9)
    for each in (axes, difference):
        each.set_xlabel("documents", fontsize=9)
        each.xaxis.set_major_formatter("{x:,.0f}")
    legend_below(figure, [line(name, colour, marker=".") for name, colour in colours.items()], 2)
    figure.savefig(target)


if __name__ == "__main__":
    draw(ms.open_run(sys.argv[1]), Path(sys.argv[2]))

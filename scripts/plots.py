"""The pictures and plots of docs/windows.md, docs/joins.md and docs/graphs.md: `make plots` draws them into docs/plots.

    make plots                              all
    make plots ARGS="trending joined"       some of them

Runs are on the local engine, on generated records, in a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

import millstream as ms
from benchmarks.figures.joins import memory_by_window
from scripts.run_plots import (
    draw_joined,
    draw_memory,
    draw_popularity,
    draw_trending,
    draw_two_models,
    write_texts_and_labels,
)
from scripts.small_images import write_small
from scripts.window_kinds import picture

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/plots"
TEXTS = 9_000
LOCAL = {"engine.type": "local"}


def run(config: str, folder: Path, options: dict[str, Any]) -> ms.Run:
    return ms.run(ROOT / f"configs/{config}.yaml", run=folder / "run", set=LOCAL | options)


def popularity(folder: Path) -> Figure:
    return draw_popularity(run("demo", folder, {}))


def trending(folder: Path) -> Figure:
    return draw_trending(run("trending", folder, {}))


def two_models(folder: Path) -> Figure:
    return draw_two_models(run("two_models", folder, {}))


def joined(folder: Path, texts: int = TEXTS) -> Figure:
    sent, labels = write_texts_and_labels(folder, texts)
    files = {"sources.texts.path": str(sent), "sources.labels.path": str(labels)}
    return draw_joined(run("joined", folder, files), sent, labels)


def join_memory(folder: Path) -> Figure:
    memory_by_window("1s", 2, 1)  # imports and compiled code are no memory of the join
    bounds = {"within: 1s, two windows": "1s", "without ends": "36500d"}
    return draw_memory({name: memory_by_window(within, 1_000, 25) for name, within in bounds.items()})


PLOTS: dict[str, Callable[[Path], Figure]] = {
    "popularity": popularity,
    "trending": trending,
    "two_models": two_models,
    "joined": joined,
    "join_memory": join_memory,
}


def draw(names: Sequence[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    if "window_kinds" in names:
        (FOLDER / "window_kinds.svg").write_text(picture())
    for name in names:
        if name in PLOTS:
            with tempfile.TemporaryDirectory() as folder, BytesIO() as file:
                PLOTS[name](Path(folder)).savefig(file, format="png")
                write_small(Image.open(file), FOLDER / f"{name}.png", colours=256)


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["window_kinds", *PLOTS]
    if unknown := set(wanted) - {"window_kinds", *PLOTS}:
        sys.exit(f"there is no plot {sorted(unknown)[0]!r}; there are window_kinds, {', '.join(PLOTS)}")
    draw(wanted)

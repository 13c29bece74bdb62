"""The tables of earlier work as bars beside those of a study with the same design.

The published figures are those of Trofimov et al. 2019, percent of the output: a frozen model with 77.3 % accuracy;
4,000 documents in four blocks of the topics sport and science, and 5,000 documents of which the last 550 have the topic
animals; one failure that repeats about 600 documents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from millstream.study.cells import Cell
from millstream.study.plots.style import POINTS, colours_of, label_words, legend_below, line, panels
from millstream.study.results import labels_of

__all__ = ["applies", "draw"]

_FIRST = {"no failure": 41.8, "repeats\nin first": 46.7, "repeats\nin second": 37.7}
_SECOND = {"no failure": 40.4, "repeats\nin first": 35.5, "repeats\nin second": 44.5}
_RARE = {"no failure": 10.1, "repeats\nbefore": 9.4}
_THRESHOLD = 10.0
_PUBLISHED = "published (Trofimov et al. 2019)"
_Bars = dict[str, dict[str, float]]
"""The share of a label in percent: by study or learner, then by failures."""


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether failures of frozen models are tied to two topics in turn."""
    topics = {cell.factors["topic"] for cell in cells} - {""}
    return len(topics) == 2 and not any(cell.labels_changed for cell in cells)


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw the shares of two topics that come in blocks, and that of a topic that comes last."""
    first, second = dict.fromkeys(cell.factors["topic"] for cell in cells if cell.factors["topic"])
    labels, rows = labels_of(table), table.to_pylist()
    configs = {row["stream"]: json.loads(row["stream_config"]) for row in rows}
    blocks, tails, rare = [], [], ""
    for row in rows:
        config = configs[row["stream"]]
        if config["order"] == "blocks":
            blocks.append((_words(row, first), row))
        elif config["order"] == "tail" and config["labels"] is None:
            rare = config["label"]
            tails.append((_tail_words(row, config["share"]), row))
    shown = [
        (f"share of the first topic, %\n(published: sport; ours: {label_words(first)})", _FIRST, blocks, first),
        (f"share of the second topic, %\n(published: science; ours: {label_words(second)})", _SECOND, blocks, second),
    ]
    if tails:
        subject = f"share of a topic that comes last, %\n(published: animals; ours: {label_words(rare)})"
        shown.append((subject, _RARE, tails, rare))
    title = "The shares of predicted topics after one failure: the tables of earlier work, and those of this study"
    figure, [axes] = panels(1, len(shown), title, height=3.4)
    series = list(dict.fromkeys([_PUBLISHED, *(row["learner"] for row in rows)]))
    colours = {_PUBLISHED: "#888888", **colours_of(series[1:])}
    for panel, (subject, published, found, label) in zip(axes, shown, strict=True):
        _show(panel, {_PUBLISHED: published, **_bars(found, labels.index(label))}, colours)
        panel.set_title(subject, fontsize=9, loc="left")
    if tails:
        axes[-1].axhline(_THRESHOLD, color="#D55E00", linewidth=0.8, linestyle="--")
        axes[-1].text(1.01, _THRESHOLD, "popular", transform=axes[-1].get_yaxis_transform(), va="center", fontsize=7)
    legend_below(figure, [line(name, colour, linewidth=6) for name, colour in colours.items()])
    return figure


def _words(row: Mapping[str, Any], first: str) -> str | None:
    """The failures of a trial in blocks of two topics; None: they are not tied to a topic."""
    if not row["failures"]:
        return "no failure"
    if row["placement"] != "topic":
        return None
    effect = "repeats" if row["treatment"] == "at_least_once" else "losses"
    return f"{effect}\nin {'first' if row['topic'] == first else 'second'}"


def _tail_words(row: Mapping[str, Any], share: float) -> str | None:
    """The failures of a trial with a topic that comes last; None: they hit both parts of the stream."""
    if not row["failures"]:
        return "no failure"
    effect = "repeats" if row["treatment"] == "at_least_once" else "losses"
    if row["placement"] == "topic":
        return None
    if row["between_last"] <= 1 - share:
        return f"{effect}\nbefore"
    return f"{effect}\nin it" if row["between_first"] >= 1 - share else None


def _bars(rows: Sequence[tuple[str | None, Mapping[str, Any]]], label: int) -> _Bars:
    """Return the mean share of a predicted label by learner and failures."""
    found: dict[str, dict[str, list[float]]] = {}
    for words, row in rows:
        if words is not None:
            shares = found.setdefault(row["learner"], {}).setdefault(words, [])
            shares.append(POINTS * row["predicted_shares"][label])
    return {name: {words: float(np.mean(of)) for words, of in each.items()} for name, each in found.items()}


def _show(panel: Axes, bars: _Bars, colours: Mapping[str, str]) -> None:
    groups = list(dict.fromkeys(words for each in bars.values() for words in each))
    width = 0.8 / len(bars)
    for number, (name, each) in enumerate(bars.items()):
        places = [groups.index(words) + width * (number - (len(bars) - 1) / 2) for words in each]
        panel.bar(places, [*each.values()], 0.95 * width, color=colours[name])
        for at, height in zip(places, each.values(), strict=True):
            panel.text(at, height, f"{height:.3g}", ha="center", va="bottom", fontsize=7, rotation=90)
    panel.set_xticks(range(len(groups)), groups, fontsize=7)
    panel.margins(y=0.12)
    panel.grid(visible=False, axis="x")

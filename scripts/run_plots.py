"""Plots of the outputs of runs: popularity, trending words, joined records, and two models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import millstream as ms
from millstream.study.plots.style import COLOURS, colours_of, legend_below, line, panels
from scripts.documents_plot import PART, accuracy

HOUR = 3_600_000_000
MINUTE = 60_000_000
WITHIN = 60
"""The minutes within which `configs/joined.yaml` waits for a label."""
Row = Mapping[str, Any]


def rows_of(run: ms.Run, output: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.output(output).to_pylist()
    return found


def draw_popularity(run: ms.Run, threshold: float = 0.10) -> Figure:
    """The share of each topic by window, and the windows in which it became popular, or stopped to be."""
    rows = rows_of(run, "topics")
    hours = _hours(rows)
    topics = sorted({row["topic"] for row in rows})
    colours = colours_of(topics)
    figure, [[panel]] = panels(1, 1, "Popularity: the share of each topic in windows of one hour", height=2.9)
    for topic in topics:
        own = [(hour, row) for hour, row in zip(hours, rows, strict=True) if row["topic"] == topic]
        panel.plot([hour for hour, _ in own], [100 * row["share"] for _, row in own], color=colours[topic], marker=".")
        for hour, row in own:
            if row["changed"]:
                panel.plot(hour, 100 * row["share"], "o", color=colours[topic], markersize=9, fillstyle="none")
    panel.axhline(100 * threshold, color="#555555", linewidth=0.9, linestyle="--")
    panel.set_ylabel("share of the hour, %", fontsize=8)
    panel.set_xlabel("hour of the day", fontsize=8)
    entries = [line(topic, colours[topic], marker=".") for topic in topics]
    changed = line("changed", "#555555", marker="o", linestyle="none", fillstyle="none")
    legend_below(figure, [*entries, line("threshold", "#555555", linestyle="--"), changed], columns=5)
    return figure


def draw_trending(run: ms.Run) -> Figure:
    """The most frequent rising word of each hour, from what was expected to its count; and its early rows."""
    rows = rows_of(run, "trending")
    hours = _hours(rows)
    tops: dict[int, dict[str, Any]] = {}
    for hour, row in zip(hours, rows, strict=True):
        if row["_final"] and (hour not in tops or row["count"] > tops[hour]["count"]):
            tops[hour] = row
    colours = colours_of(sorted({row["topic"] for row in tops.values()}))
    title = "Trending: of each hour the most frequent of its rising words, and its early rows every 15 minutes"
    figure, [[final], [early]] = panels(2, 1, title, height=2.6, share_x="all")
    for hour, top in tops.items():
        colour = colours[top["topic"]]
        final.vlines(hour + 1, top["expected"], top["count"], color=colour, linewidth=3)
        final.plot(hour + 1, top["count"], "o", color=colour, markersize=6)
        own = [row for of, row in zip(hours, rows, strict=True) if of == hour and row["word"] == top["word"]]
        own.sort(key=lambda row: row["_emission"])
        # the last early row of a window is that at its end, just before the final one
        ends = [hour + 1 - max(own[-1]["_emission"] - 1 - row["_emission"], 0) / 4 for row in own]
        early.plot(ends, [row["count"] for row in own], color=colour, linewidth=2, marker=".", markersize=8)
        for panel in (final, early):
            end = (hour + 1, top["count"])
            panel.annotate(top["word"], end, (0, 6), textcoords="offset points", fontsize=9, ha="center")
    for panel in (final, early):
        panel.margins(y=0.2)
        panel.set_ylim(bottom=0)
        panel.tick_params(labelsize=9)
    final.set_ylabel("records with the word:\nexpected, and counted", fontsize=9)
    early.set_ylabel("count in early rows,\nand in the final one", fontsize=9)
    early.set_xlabel("hour of the day at which the window ends", fontsize=9)
    legend_below(figure, [line(topic, colour, linewidth=3) for topic, colour in colours.items()], columns=8)
    return figure


def write_texts_and_labels(folder: Path, texts: int) -> tuple[Path, Path]:
    """Texts every four seconds, 5 % of them twice, and labels of nine in ten of them some time later, in two files."""
    dice = np.random.default_rng(1)
    words = {topic: [f"{topic}{number}" for number in range(40)] for topic in ("sport", "travel", "music", "science")}
    sent: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    for number, topic in enumerate(dice.choice([*words], texts).tolist()):
        at = 4_000_000 * number
        record = {"id": f"text {number}", "text": " ".join(dice.choice(words[topic], 5)), "time": _moment(at)}
        sent += [record, {**record, "time": _moment(at + 1_000_000)}] if dice.random() < 0.05 else [record]
        if dice.random() < 0.9:
            minutes = float(dice.lognormal(3, 0.7))
            labels.append({"id": record["id"], "label": topic, "time": _moment(at + int(minutes * MINUTE))})
    labels.sort(key=lambda label: label["time"])
    files = folder / "texts.jsonl", folder / "labels.jsonl"
    for file, records in zip(files, (sent, labels), strict=True):
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return files


def draw_joined(run: ms.Run, texts: Path, labels: Path) -> Figure:
    """The fate of the texts of each hour, and the delay of the labels that were joined and of the others."""
    sent, labelled = (_times_in(file) for file in (texts, labels))
    ids_of = {name: _ids_in(file) for name, file in (("texts", texts), ("labels", labels))}
    joined = {ids_of[row["_source"]][row["_offset"]] for row in rows_of(run, "predictions")}
    unmatched = {row["id"] for row in rows_of(run, "unmatched")}
    repeated = [row["id"] for row in rows_of(run, "repeated")]
    first = min(sent.values())
    hours = range(int((max(sent.values()) - first) // HOUR) + 1)
    fates = {"joined with a label": joined, "unmatched": unmatched, "repeated, dropped before": repeated}
    parts = {}
    for name, ids in fates.items():
        counted = Counter(int((sent[each] - first) // HOUR) for each in ids)
        parts[name] = [counted[hour] for hour in hours]
    title = "Joined: texts with labels that come at most an hour later, `how: left`"
    figure, [[fate, delay]] = panels(1, 2, title, height=2.9)
    _stack(fate, hours, parts)
    fate.set_ylabel("texts of the hour", fontsize=8)
    fate.set_xlabel("hour of the stream", fontsize=8)
    bins = [float(edge) for edge in range(0, 181, 5)]
    for ids, colour in zip((joined, unmatched), COLOURS, strict=False):
        delay.hist(
            [(labelled[each] - sent[each]) / MINUTE for each in ids if each in labelled], bins=bins, color=colour
        )
    delay.axvline(WITHIN, color="#555555", linewidth=0.9, linestyle="--")
    delay.set_ylabel("texts with a label", fontsize=8)
    delay.set_xlabel("minutes from the text to its label", fontsize=8)
    entries = [line(name, colour, linewidth=6) for name, colour in zip(parts, COLOURS, strict=False)]
    legend_below(figure, [*entries, line("within: 1h", "#555555", linestyle="--")])
    return figure


def draw_two_models(run: ms.Run) -> Figure:
    """The accuracy of each model of `configs/two_models.yaml` in each part of the stream."""
    found = {name: accuracy(run, name) for name in ("bayes", "softmax")}
    title = f"Two models on the same records: the accuracy of each, by {PART:,} records"
    figure, [[panel]] = panels(1, 1, title, height=2.9)
    colours = colours_of(list(found))
    for name, values in found.items():
        panel.plot(PART * np.arange(1, len(values) + 1), values, color=colours[name], marker=".", linewidth=2)
    panel.tick_params(labelsize=9)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.set_ylabel("predicted before learning, %", fontsize=9)
    panel.set_xlabel("records", fontsize=9)
    legend_below(figure, [line(name, colour, marker=".") for name, colour in colours.items()])
    return figure


def draw_memory(measured: Mapping[str, Sequence[tuple[int, int]]]) -> Figure:
    """The memory of joins after so many windows, by their bound."""
    figure, [[panel]] = panels(1, 1, "Memory of a join over 1,000 windows of 500 records of each stream", height=2.6)
    for taken, colour in zip(measured.values(), COLOURS, strict=False):
        panel.plot([window for window, _ in taken], [size / 1e6 for _, size in taken], color=colour, marker=".")
    panel.set_ylim(bottom=0)
    panel.set_ylabel("memory, MB", fontsize=8)
    panel.set_xlabel("windows", fontsize=8)
    legend_below(figure, [line(name, colour, marker=".") for name, colour in zip(measured, COLOURS, strict=False)])
    return figure


def _hours(rows: Sequence[Row]) -> list[int]:
    """The hour of each row's window, from the midnight before the first one."""
    times = [int(row["_window"].timestamp()) // 3600 for row in rows]
    return [time - min(times) // 24 * 24 for time in times]


def _ids_in(file: Path) -> list[str]:
    """The id of each record: a joined record has the position of the one that came second."""
    return [json.loads(written)["id"] for written in file.read_text().splitlines()]


def _times_in(file: Path) -> dict[str, int]:
    """The first time of each id in a file, in microseconds."""
    times: dict[str, int] = {}
    for written in file.read_text().splitlines():
        record = json.loads(written)
        times.setdefault(record["id"], int(np.datetime64(record["time"].removesuffix("Z"), "us").astype(np.int64)))
    return times


def _stack(panel: Axes, hours: Sequence[int], parts: Mapping[str, Sequence[int]]) -> None:
    bottoms = [0] * len(hours)
    for (_, values), colour in zip(parts.items(), COLOURS, strict=False):
        panel.bar(hours, values, bottom=bottoms, color=colour, width=0.8)
        bottoms = [bottom + value for bottom, value in zip(bottoms, values, strict=True)]


def _moment(time: int) -> str:
    moment = np.datetime64("2026-03-01T08:00:00.000000") + np.timedelta64(time, "us")
    return f"{moment}Z"

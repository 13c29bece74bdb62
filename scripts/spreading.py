"""Draws how labels spread: the notes of `configs/label_propagation.yaml` in columns, one for each round.

Usage: python scripts/spreading.py NOTES.jsonl LABELS.jsonl PICTURE.svg
An arrow leads from a note to each one that got its label over a shared word, in the round after it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream.api.graph_picture import Arrow, Box, Picture
from millstream.api.graph_svg import svg
from millstream_pipelines.label_propagation import words

COLOURS = ("source", "sink")
"""The kinds of boxes, by their colours, for two labels; notes without a label are white."""


def picture(notes: dict[str, dict[str, Any]], labels: dict[str, dict[str, Any]]) -> Picture:
    """The notes by round, and the ways of the labels; `labels` has the last row of each labelled note."""
    colours = dict(zip(sorted({row["label"] for row in labels.values()}), COLOURS, strict=True))
    order = sorted(notes, key=lambda each: int(labels[each]["hops"]) if each in labels else len(notes))
    kinds = {each: colours[labels[each]["label"]] if each in labels else "step" for each in order}
    boxes = [Box(kinds[each], each, notes[each]["text"]) for each in order]
    ways = ((one, other, word) for one in labels for other, word in _next(one, notes, labels))
    return Picture(
        tuple(boxes), tuple(Arrow(f"{kinds[one]} {one}", f"{kinds[other]} {other}", word) for one, other, word in ways)
    )


def _next(one: str, notes: dict[str, dict[str, Any]], labels: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The notes that got their label from this one, with a word that both have."""
    mine = [child["word"] for child in words(notes[one])]
    for other, row in labels.items():
        shared = [child["word"] for child in words(notes[other]) if child["word"] in mine]
        if shared and row["label"] == labels[one]["label"] and int(row["hops"]) == int(labels[one]["hops"]) + 1:
            yield other, str(shared[0])


def _read(path: str) -> dict[str, dict[str, Any]]:
    rows = map(json.loads, Path(path).read_text().splitlines())
    return {row["id"]: row for row in rows}


if __name__ == "__main__":
    notes_file, labels_file, target = sys.argv[1:]
    Path(target).write_text(svg(picture(_read(notes_file), _read(labels_file)), "Labels spread over shared words"))

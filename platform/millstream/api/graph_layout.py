"""The layout of a picture: boxes in layers from left to right, and arrows around the boxes between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millstream.api.graph_picture import Arrow, Box, Picture

__all__ = ["FONT", "Layout", "Place", "layout"]

FONT = 14
"""The size of the letters, in pixels."""
LETTER, LINE = 0.6 * FONT, 18.0
"""The width of a letter and the height of a line, in pixels."""
_HEIGHT, _BETWEEN, _GAP, _MARGIN = 2 * LINE + 14, 26.0, 38.0, 16.0
_BESIDE = 10.0
"""The distance of an arrow that leads back from the sides of its boxes."""


@dataclass(frozen=True)
class Place:
    """The place of a box: its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Layout:
    """The places of the boxes by their keys, the points that each arrow passes, and the size of the picture."""

    places: Mapping[str, Place]
    ways: Sequence[tuple[Arrow, Sequence[tuple[float, float]]]]
    width: float
    height: float


def layout(picture: Picture) -> Layout:
    """Place the boxes of a picture: each in the layer after the last box that leads to it.

    An arrow over several layers has a free place in each layer between, so that it crosses no box. An arrow that leads
    back goes below all boxes.
    """
    layers = _layers(picture)
    ways = {index: _way(arrow, layers, index) for index, arrow in enumerate(picture.arrows) if not arrow.back}
    columns = _columns(picture, layers, ways)
    boxes = {box.key: box for box in picture.boxes}
    places: dict[str, Place] = {}
    height = max(_column_height(column, boxes) for column in columns)
    x = _MARGIN
    for number, column in enumerate(columns):
        width = max((_width(boxes[key]) for key in column if key in boxes), default=0.0)
        y = _MARGIN + (height - _column_height(column, boxes)) / 2
        for key in column:
            tall = _HEIGHT if key in boxes else LINE
            places[key] = Place(x, y, width, tall)
            y += tall + _BETWEEN
        into = [picture.arrows[index].label for index, way in ways.items() if layers[way[-1]] == number + 1]
        x += width + _GAP + LETTER * max(map(len, into), default=0)
    last = max(place.x + place.width for place in places.values())
    drawn = [(picture.arrows[index], _points([places[key] for key in way])) for index, way in ways.items()]
    below = height + 2 * _MARGIN
    for arrow in picture.arrows:
        if arrow.back:
            drawn.append((arrow, _points_back(places[arrow.start], places[arrow.end], below)))
            below += LINE + 4
    kept = {key: place for key, place in places.items() if key in boxes}
    return Layout(kept, drawn, last + _MARGIN, below)


def _layers(picture: Picture) -> dict[str, int]:
    layers: dict[str, int] = {}
    for box in picture.boxes:
        before = [layers[arrow.start] for arrow in picture.arrows if arrow.end == box.key and not arrow.back]
        layers[box.key] = max(before, default=-1) + 1
    return layers


def _way(arrow: Arrow, layers: Mapping[str, int], index: int) -> list[str]:
    """The keys of the places that an arrow passes: its boxes, and a free place in each layer between them."""
    between = range(layers[arrow.start] + 1, layers[arrow.end])
    return [arrow.start, *(f"arrow {index} {layer}" for layer in between), arrow.end]


def _columns(picture: Picture, layers: Mapping[str, int], ways: Mapping[int, Sequence[str]]) -> list[list[str]]:
    """The places of each layer from top to bottom: each near the places to which it is joined, so that few cross."""
    columns: list[list[str]] = [[] for _ in range(max(layers.values()) + 1)]
    for box in picture.boxes:
        columns[layers[box.key]].append(box.key)
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for way in ways.values():
        for layer, key in enumerate(way[1:-1], layers[way[0]] + 1):
            columns[layer].append(key)
        for left, right in itertools.pairwise(way):
            before.setdefault(right, []).append(left)
            after.setdefault(left, []).append(right)
    for _ in range(4):
        _sort(columns, columns[1:], before)
        _sort(columns, columns[-2::-1], after)
    _sort(columns, columns[1:], before)
    return columns


def _sort(
    columns: Sequence[Sequence[str]], sorted_ones: Iterable[list[str]], joined: Mapping[str, Sequence[str]]
) -> None:
    """Sort each of these columns by the mean position of what its places are joined to."""
    for column in sorted_ones:
        position = {key: index / max(1, len(each)) for each in columns for index, key in enumerate(each)}
        means = {key: sum(position[other] for other in near) / len(near) for key, near in joined.items() if near}
        column.sort(key=lambda key: means.get(key, position[key]))


def _column_height(column: Sequence[str], boxes: Mapping[str, Box]) -> float:
    return sum(_HEIGHT if key in boxes else LINE for key in column) + _BETWEEN * (len(column) - 1)


def _width(box: Box) -> float:
    return LETTER * max(len(box.name), len(box.detail)) + 14


def _points(places: Sequence[Place]) -> list[tuple[float, float]]:
    """The points of an arrow: out of the first box, through free places, into the last box."""
    first, *between, last = places
    inner = [point for place in between for point in ((place.x, place.middle), (place.x + place.width, place.middle))]
    return [(first.x + first.width, first.middle), *inner, (last.x, last.middle)]


def _points_back(first: Place, last: Place, below: float) -> list[tuple[float, float]]:
    """The corners of an arrow that leads back: out of the first box, down, to the left, up, into the last box."""
    right, left = first.x + first.width, last.x
    return [
        (right, first.middle + LINE / 2),
        (right + _BESIDE, first.middle + LINE / 2),
        (right + _BESIDE, below),
        (left - _BESIDE, below),
        (left - _BESIDE, last.middle + LINE / 2),
        (left, last.middle + LINE / 2),
    ]

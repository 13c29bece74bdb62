"""The picture of a graph as an SVG file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from millstream.api.graph_layout import FONT, LETTER, LINE, Layout, Place, layout
from millstream.api.graph_picture import Box, Picture

__all__ = ["svg"]

_COLOURS = {"source": ("#e8f1fb", "#3b78b5"), "step": ("#ffffff", "#4a4a4a"), "sink": ("#ecf6ea", "#4c8c43")}
_ROUND = {"source": 18, "step": 4, "sink": 18}


def svg(picture: Picture, title: str) -> str:
    """The picture as SVG: sources are blue, steps white, sinks green; an arrow's label is the grouping of its records.

    The arrows of records that are sent back, for the next round of a cycle, are dashed.

    >>> text = svg(Picture((Box("source", "news", "files"),), ()), "one source")
    >>> text.startswith("<svg"), "news" in text
    (True, True)
    """
    placed = layout(picture)
    size = f'width="{placed.width:.0f}" height="{placed.height:.0f}"'
    box = f'viewBox="0 0 {placed.width:.0f} {placed.height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} font-family="Menlo, Consolas, monospace" '
            f'font-size="{FONT}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#6b6b6b"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *_arrows(placed),
            *(line for each in picture.boxes for line in _box(each, placed.places[each.key])),
            "</svg>",
            "",
        ]
    )


def _arrows(placed: Layout) -> Iterator[str]:
    for arrow, points in placed.ways:
        line, dashes = (_corners(points), ' stroke-dasharray="5 3"') if arrow.back else (_curve(points), "")
        yield f'<path d="{line}" fill="none" stroke="#6b6b6b" stroke-width="1.2"{dashes} marker-end="url(#end)"/>'
    for arrow, points in placed.ways:
        start, end = points[2:4] if arrow.back else points[-2:]
        if arrow.label:
            yield from _label(arrow.label, (start[0] + end[0]) / 2, (start[1] + end[1]) / 2)


def _label(text: str, x: float, y: float) -> Iterator[str]:
    width = LETTER * len(text) + 6
    yield (
        f'<rect x="{x - width / 2:.1f}" y="{y - LINE / 2:.1f}" width="{width:.1f}" height="{LINE:.0f}" fill="#ffffff"/>'
    )
    yield f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="#6b4a00">{escape(text)}</text>'


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A smooth line through these points, level at each of them."""
    (x, y), *others = points
    path = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in others:
        half = (x + to_x) / 2
        path.append(f"C{half:.1f},{y:.1f} {half:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(path)


def _corners(points: Sequence[tuple[float, float]]) -> str:
    """A line of straight parts through these points."""
    return "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _box(box: Box, place: Place) -> Iterator[str]:
    fill, line = _COLOURS[box.kind]
    middle = place.x + place.width / 2
    yield (
        f'<rect x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" '
        f'rx="{_ROUND[box.kind]}" fill="{fill}" stroke="{line}" stroke-width="1.2"/>'
    )
    for text, below, weight in ((box.name, -3, "bold"), (box.detail, LINE - 3, "normal")):
        yield (
            f'<text x="{middle:.1f}" y="{place.middle + below:.1f}" text-anchor="middle" font-weight="{weight}" '
            f'fill="#222222">{escape(text)}</text>'
        )

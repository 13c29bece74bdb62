"""The picture of a graph as Mermaid text, which many web pages and editors draw."""

from __future__ import annotations

from millstream.api.graph_picture import Box, Picture

__all__ = ["mermaid"]

_SHAPES = {"source": ("[(", ")]"), "step": ("[", "]"), "sink": ("[/", "/]")}


def mermaid(picture: Picture) -> str:
    """The picture as a flowchart from left to right; the arrows that lead back are dotted.

    >>> from millstream.api.graph_picture import Arrow
    >>> boxes = (Box("source", "news", "files"), Box("step", "classify", "classify"))
    >>> print(mermaid(Picture(boxes, (Arrow("source news", "step classify", "to one"),))))
    flowchart LR
        n0[("news<br>files")]
        n1["classify<br>classify"]
        n0 -->|"to one"| n1
    """
    numbers = {box.key: f"n{index}" for index, box in enumerate(picture.boxes)}
    lines = ["flowchart LR", *(f"    {numbers[box.key]}{_shape(box)}" for box in picture.boxes)]
    for arrow in picture.arrows:
        label = f'|"{_text(arrow.label)}"|' if arrow.label else ""
        line = "-.->" if arrow.back else "-->"
        lines.append(f"    {numbers[arrow.start]} {line}{label} {numbers[arrow.end]}")
    return "\n".join(lines)


def _shape(box: Box) -> str:
    left, right = _SHAPES[box.kind]
    return f'{left}"{_text(box.name)}<br>{_text(box.detail)}"{right}'


def _text(text: str) -> str:
    """The text without characters that Mermaid reads as its own."""
    for character, code in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(character, code)
    return text

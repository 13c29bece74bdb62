"""The candidates of a search as `millstream train` prints them: a table, the best first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from millstream.plain_text import json_object, one_line, short, value_text

if TYPE_CHECKING:
    from millstream.history.train import Trained

__all__ = ["candidate_lines"]

_MOST = 40
_HEADS = ("place", "accuracy", "held out", "rung", "records", "candidate")


def candidate_lines(found: Trained) -> Iterator[str]:
    """Yield the lines about the candidates, the best one's model, and the plot."""
    rows = found.result["candidates"]
    texts = [_HEADS, *(tuple(_row(row)) for row in rows[:_MOST])]
    widths = [max(len(row[column]) for row in texts) for column in range(len(_HEADS) - 1)]
    for row in texts:
        numbers = [text.rjust(width) for text, width in zip(row, widths, strict=False)]
        yield "  ".join(["", *numbers, row[-1]])
    if len(rows) > _MOST:
        yield f"  and {len(rows) - _MOST:,} candidates more; {found.path / 'training.json'} has them all"
    yield f"  the best model: {json_object(found.result['model'])}"
    yield f"  plot: {found.path / 'search.png'}"


def _row(row: Mapping[str, Any]) -> Iterator[str]:
    yield str(row["place"])
    yield from ("failed" if row["error"] is not None else _percent(row[name]) for name in ("accuracy", "held_out"))
    yield str(row["rung"])
    yield f"{row['records']:,}"
    values = ", ".join(f"{key}={short(value_text(value))}" for key, value in row["values"].items())
    yield one_line(values if row["error"] is None else f"{values}: {row['error']}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"

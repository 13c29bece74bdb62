"""Functions of filter and map, the steps that call them, and the records that they get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from millstream.steps.contracts import Step
from millstream.steps.functions import Filter, Map

__all__ = ["SCHEMA", "Define", "build_filter", "build_map", "not_bad", "records", "shout"]

SCHEMA = pa.schema(
    [
        ("_rank", pa.int64()),
        ("_offset", pa.int64()),
        ("_time", pa.int64()),
        ("text", pa.string()),
        ("label", pa.string()),
        ("score", pa.float64()),
    ]
)


def records(*texts: str | None) -> pa.Table:
    """A table of records with these texts; every fourth has no time."""
    return pa.table(
        {
            "_rank": [number % 3 for number in range(len(texts))],
            "_offset": [10 + number for number in range(len(texts))],
            "_time": [None if number % 4 == 3 else number for number in range(len(texts))],
            "text": texts,
            "label": ["x"] * len(texts),
            "score": [0.5] * len(texts),
        },
        schema=SCHEMA,
    )


Define = Callable[[Callable[[Any], Any]], str]


def build_filter(**options: Any) -> Step:
    """The step of a filter with these options."""
    return Filter.model_validate(options).build(SCHEMA)


def build_map(**options: Any) -> Step:
    """The step of a map with these options."""
    return Map.model_validate(options).build(SCHEMA)


def not_bad(record: Mapping[str, Any]) -> bool:
    """A function of a filter that fails for the text `bad`."""
    if record["text"] == "bad":
        raise ValueError("bad text")
    return bool(record["text"])


def shout(record: Mapping[str, Any]) -> dict[str, Any]:
    """A function of a map that fails for the text `bad`."""
    if record["text"] == "bad":
        raise ValueError("bad text")
    first = {"first": record["text"][:1]} if record["text"] else {}
    return {"text": record["text"].upper() if record["text"] is not None else None, **first}

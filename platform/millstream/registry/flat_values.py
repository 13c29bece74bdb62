"""Nested values by key paths, as MLflow shows params and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["flat_values"]


def flat_values(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its key path. A list without mappings is one value; values that are null are left out.

    >>> list(flat_values({"steps": [{"type": "words", "ngrams": [1, 2], "hash": None}]}))
    [('steps.0.type', 'words'), ('steps.0.ngrams', [1, 2])]
    """
    if isinstance(data, Mapping):
        items: Iterable[tuple[Any, Any]] = data.items()
    elif isinstance(data, list) and any(isinstance(each, Mapping) for each in data):
        items = enumerate(data)
    else:
        if data is not None:
            yield path, data
        return
    for key, value in items:
        yield from flat_values(value, f"{path}.{key}" if path else str(key))

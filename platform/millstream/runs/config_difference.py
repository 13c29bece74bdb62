"""The first difference between two configs, in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["difference"]


def difference(was: Any, now: Any, path: str = "") -> str:
    """Return a description of the first difference between two configs; items of a list are named if they have a name.

    >>> difference([{"name": "classify", "model": {"alpha": 0.1}}], [{"name": "classify", "model": {"alpha": 0.5}}])
    'classify.model.alpha was 0.1, is 0.5'
    >>> difference([{"name": "classify"}], [{"name": "dedupe"}, {"name": "classify"}])
    "'dedupe' is new"
    """
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*was, *(key for key in now if key not in was)]:
            if was.get(key) != now.get(key):
                return difference(was.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now) and _names(was) == _names(now):
        for index, (a, b) in enumerate(zip(was, now, strict=True)):
            if a != b:
                return difference(a, b, _item(b, path, index))
    where = f"{path} " if path else ""
    if (names := _names(was)) is not None and (new_names := _names(now)) is not None:
        return where + _other_items(names, new_names, was, now)
    return f"{where}was {json.dumps(was)}, is {json.dumps(now)}"


def _names(items: Any) -> list[str] | None:
    """The names of the items of a list, such as those of steps; None if an item has none."""
    if not isinstance(items, list):
        return None
    names = [each["name"] for each in items if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return names if len(names) == len(items) else None


def _other_items(names: Sequence[str], new_names: Sequence[str], was: Sequence[Any], now: Sequence[Any]) -> str:
    """The difference of two lists of named items whose names differ."""
    missing = [name for name in names if name not in new_names]
    new = [name for name in new_names if name not in names]
    if len(missing) == len(new) == 1:
        before, after = was[names.index(missing[0])], now[new_names.index(new[0])]
        if {**before, "name": ""} == {**after, "name": ""}:
            return f"{missing[0]!r} is now called {new[0]!r}"
    parts = [f"{name!r} is new" for name in new] + [f"{name!r} is missing" for name in missing]
    return ", ".join(parts) or f"the order was {', '.join(names)}, is {', '.join(new_names)}"


def _item(item: Any, path: str, index: int) -> str:
    """The path of an item of a list, such as a step: its name, or its index if it has none."""
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str):
        return f"{path}[{index}]"
    return f"{path}.{name}" if path else name

"""One key of a windowed step: its open windows, and its past for its next window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.steps.windowed.sums import PaneSum

__all__ = ["Key"]


@dataclass(slots=True)
class Key:
    """One key: its code, its name, its shard, the memory of its windows, its past, and the contents of its panes.

    For early rows: `changed` has the panes that changed since the last one, `since` the interval of the first of these
    changes, and `emissions` the number of early rows of each open window that has some. They are None, as `past` is,
    until they are needed: there may be many keys. `sum` is for windows of several panes. `held` is the
    number of its open windows in the count of its shard; 0 until it is counted again.
    """

    code: int
    name: str
    shard: int
    memory: Any
    past: Any = None
    panes: dict[int, Any] = field(default_factory=dict)
    changed: set[int] | None = None
    since: int | None = None
    emissions: dict[int, int] | None = None
    sum: PaneSum | None = None
    held: int = 0

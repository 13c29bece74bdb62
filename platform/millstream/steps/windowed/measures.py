"""The contract of measures: the contents of windows, and the rows that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from millstream.arrays import Array

__all__ = ["Measure", "Row", "SubtractableMeasure"]

Row = tuple[Any, ...]
"""The values of a row of a measure's output, without those that identify the window."""


class Measure(Protocol):
    """Something that is measured in each window of each key: the counts of topics, a sketch, the words that rise.

    The contents of a pane are a value of any type; the *past* of a key is a value that one window leaves for the next.
    """

    name: str
    """The name of the measure's state."""
    output: str
    """The name of the output."""
    columns: Sequence[pa.Field]
    """The columns of the output after those of the window and the key."""
    identity: tuple[str, ...]
    """The columns that identify a row within its window and its key."""
    ordered: bool
    """True if contents depend on the order of the records."""

    def read(self, records: pa.Table) -> Any:
        """Return the columns that the measure needs, in a form that `add` and `topics` get."""
        ...

    def topics(self, read: Any, rows: Array) -> pa.Array:
        """Return the topics of these rows, for the output `late`."""
        ...

    def contents(self) -> Any:
        """Return the contents of a new pane."""
        ...

    def add(self, read: Any, rows: Array, cell_of: Array, cells: Sequence[Any]) -> None:
        """Add the records in `rows` to contents: the i-th one to `cells[cell_of[i]]`."""
        ...

    def merge(self, contents: Sequence[Any]) -> Any:
        """Return the contents of several panes together, without changing them; later panes last."""
        ...

    def rows(self, past: Any, number: int, contents: Any) -> Sequence[Row]:
        """Return the rows of a window that closes, and change the past for the next window."""
        ...

    def early_rows(self, past: Any, number: int, contents: Any) -> Sequence[Row]:
        """Return the rows of an open window."""
        ...

    def past(self) -> Any:
        """Return the past of a new key."""
        ...

    def follower(self, past: Any) -> int | None:
        """Return the number of the window that makes rows even without contents; None if there is none."""
        ...

    def end(self, past: Any) -> None:
        """Change the past, because no window follows."""
        ...

    def is_needed(self, past: Any) -> bool:
        """Return whether this past differs from that of a new key."""
        ...

    def save(self, contents: Any) -> Any:
        """Return contents as JSON."""
        ...

    def restore(self, saved: Any) -> Any:
        """Return the contents that `save` saved."""
        ...

    def save_past(self, past: Any) -> Mapping[str, Any]:
        """Return a past as a JSON object."""
        ...

    def restore_past(self, saved: Mapping[str, Any]) -> Any:
        """Return the past that `save_past` saved, from an object with other names besides."""
        ...


@runtime_checkable
class SubtractableMeasure(Measure, Protocol):
    """A measure whose contents without those of a pane are known exactly."""

    def subtract(self, whole: Any, part: Any) -> None:
        """Take away from merged contents those of a pane."""
        ...

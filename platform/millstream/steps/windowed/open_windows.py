"""The contract of the open windows of a step: all keys with their windows and the contents of these."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import State
from millstream.steps.windowed.rows import MadeRows
from millstream.substreams import Watermark

__all__ = ["Added", "OpenWindows"]


class Added(NamedTuple):
    """The effect of records on the open windows: the rows of windows that they filled, and the records in no window.

    The rows of the batch in `late` missed the windows in `missed`, which had closed; those in `untimed` have no time.
    """

    made: MadeRows
    late: Array
    missed: Array
    untimed: Array


class OpenWindows(Protocol):
    """The open windows of all keys of a step."""

    @property
    def open_in_shards(self) -> Array:
        """The number of open windows in each shard, panes included; one shard without keys."""
        ...

    @property
    def keys_in_shards(self) -> Array:
        """The number of keys in each shard."""
        ...

    def add(self, records: pa.Table, read: Any, keys: pa.DictionaryArray | None) -> Added:
        """Add records: `read` is what the measure has read of them, `keys` has the key of each."""
        ...

    def end(self, watermark: Watermark) -> MadeRows:
        """Move event time; return the rows of the windows that close, and early rows."""
        ...

    def resume(self, watermark: Watermark) -> None:
        """Move event time to the last watermark of a state that was restored."""
        ...

    def save(self) -> State: ...

    def restore(self, state: State) -> None: ...

"""The base of steps without state."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.steps.contracts import Result, State

__all__ = ["StatelessStep"]


class StatelessStep:
    """A step with nothing to save, which makes nothing when a substream ends. `made` is the schema of its records."""

    def __init__(self, made: pa.Schema) -> None:
        self._no_records = made.empty_table()

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        pass

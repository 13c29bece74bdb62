"""A base class for steps that remember nothing from one batch to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.records import no_records
from millstream.steps.contracts import Output, Result, State

__all__ = ["StatelessStep"]


class StatelessStep:
    """Base class of steps without state. A subclass defines `traits` and `process`, and `outputs` if it has any.

    `made` is the schema of the records that the step passes on.

    >>> from millstream.steps.contracts import Scope, Traits
    >>> class DropText(StatelessStep):
    ...     traits = Traits(Scope.STATELESS, ordered=False, idempotent=True)
    ...     def process(self, records):
    ...         return Result(records.drop_columns(["text"]))
    >>> step = DropText(pa.schema([("_offset", pa.int64())]))
    >>> step.process(pa.table({"_offset": [0, 1], "text": ["a", "b"]})).records.to_pydict(), step.save()
    ({'_offset': [0, 1]}, {})
    """

    outputs: Sequence[Output] = ()

    def __init__(self, made: pa.Schema) -> None:
        self._no_records = no_records(made)

    def ended(self, substream: Any) -> Result:
        """Return no rows: without state, the end of a substream changes nothing."""
        return Result(self._no_records)

    def save(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        """Do nothing: the state is always empty."""

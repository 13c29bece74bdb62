"""The mark of windows that lack records, because a run begins in the middle of its stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self

from pydantic import BaseModel, PrivateAttr

from millstream.config.pipeline import NamedStep
from millstream.timestamps import micros_of

__all__ = ["MakesWindows", "marking_partial"]


class MakesWindows(BaseModel):
    """The options of a step that makes rows of windows.

    >>> MakesWindows().partial_until, MakesWindows().marking_partial(7).partial_until
    (None, 7)
    """

    _partial_until: int | None = PrivateAttr(default=None)

    @property
    def partial_until(self) -> int | None:
        """The latest event time of records that the step does not get; None for rows without a column `_partial`."""
        return self._partial_until

    def marking_partial(self, until: int) -> Self:
        """The same options for a step that marks the rows of windows which may have records up to this time."""
        marked = self.model_copy()
        marked._partial_until = until
        return marked


def marking_partial(steps: Sequence[NamedStep], until: datetime | None) -> tuple[NamedStep, ...]:
    """The steps; those that make windows mark the rows of windows which may have records up to this time."""
    if until is None:
        return tuple(steps)
    time = micros_of(until)
    return tuple(
        replace(step, config=step.config.marking_partial(time)) if isinstance(step.config, MakesWindows) else step
        for step in steps
    )

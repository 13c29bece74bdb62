"""The event time of a run for people: its watermarks, and the partition that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.log.epochs import Totals
from millstream.timestamps import format_time

__all__ = ["EventTimeStatus", "event_time_status"]

_SECOND = 1_000_000
_SHOWN = 3


@dataclass(frozen=True)
class EventTimeStatus:
    """The event time of a run, as of the last epoch that was processed."""

    watermarks: Mapping[str, str | None]
    """The watermark of each step, in ISO 8601; None is the end of time, and without a first watermark there is none."""
    held_by: str | None
    """The partition that holds the watermark; None if every partition is idle, has ended, or has no times."""
    held_since: str | None
    """The time at which the watermark came to its present value and partition."""
    idle: tuple[str, ...]
    """The partitions for which the watermark does not wait, because they are read to their ends and silent."""

    def describe(self) -> str:
        """Describe the last step's watermark in one sentence; empty for a run that has read no times.

        >>> print(EventTimeStatus({"count": None}, None, None, ()).describe())
        the end of time: every partition has ended
        >>> times = {"classify": "2026-03-01T08:10:00Z", "count": "2026-03-01T08:00:00Z"}
        >>> print(EventTimeStatus(times, "news/0", "2026-03-01T09:12:00Z", ("news/1",)).describe())
        2026-03-01T08:00:00Z at count, held by news/0 since 2026-03-01T09:12:00Z; idle: news/1
        >>> print(EventTimeStatus({}, "news/0", "2026-03-01T09:12:00Z", ()).describe())
        none yet, because news/0 has no record, since 2026-03-01T09:12:00Z
        """
        more = f" and {len(self.idle) - _SHOWN:,} more" if len(self.idle) > _SHOWN else ""
        idle = f"; idle: {', '.join(self.idle[:_SHOWN])}{more}" if self.idle else ""
        if not self.watermarks:
            return f"none yet, because {self.held_by} has no record, since {self.held_since}" if self.held_by else ""
        step, time = list(self.watermarks.items())[-1]
        if time is None:
            return "the end of time: every partition has ended"
        if self.held_by is None:
            return f"{time} at {step}, held by no partition{idle}"
        return f"{time} at {step}, held by {self.held_by} since {self.held_since}{idle}"


def event_time_status(totals: Totals) -> EventTimeStatus:
    """The event time in the totals of an epoch log."""
    names = [f"{partition.source}/{partition.name}" for partition in totals.partitions]
    return EventTimeStatus(
        watermarks={step: None if time is None else _text(time) for step, time in totals.watermarks.items()},
        held_by=None if totals.held_by is None else names[totals.held_by],
        held_since=None if totals.held_by is None else _text(totals.held_since),
        idle=tuple(names[rank] for rank in sorted(totals.idle)),
    )


def _text(micros: int) -> str:
    """A time in whole seconds; a watermark far outside of the calendar is a number."""
    try:
        return format_time(micros // _SECOND * _SECOND)
    except OverflowError:
        return str(micros)

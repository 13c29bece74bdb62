"""Short descriptions of messages, for the trace of a schedule."""

from __future__ import annotations

from millstream.engines.workers.messages import (
    Allow,
    Boundary,
    Done,
    EpochPart,
    Failed,
    Finish,
    Finished,
    Message,
    Read,
    Restore,
    Round,
    SentBack,
    Skip,
    StateRequest,
    StateWritten,
    Take,
)

__all__ = ["describe"]


def describe(message: Message) -> str:
    """Describe a message in a few words.

    >>> describe(Allow(3, 6))
    'Allow epochs 3 to 5'
    """
    name = type(message).__name__
    match message:
        case Allow(start, stop):
            return f"{name} epoch {start}" if stop == start + 1 else f"{name} epochs {start} to {stop - 1}"
        case Read(epoch, _, ranges):
            return f"{name} epoch {epoch}, {sum(part.stop - part.start for part in ranges)} records"
        case Take(epoch) | Skip(epoch):
            return f"{name} epoch {epoch.number}"
        case EpochPart(epoch, leg, phase):
            return f"{name} of epoch {epoch}, leg {leg}, phase {phase}, {message.size} records"
        case Boundary(epoch, watermark):
            return f"{name} of epoch {epoch}" + ("" if watermark is None else f", watermark {watermark.time}")
        case SentBack(epoch, cycle, number, records):
            return f"{name} {records} records to round {number} of {cycle}, epoch {epoch}"
        case Round(epoch, cycle, number, over):
            return f"{name} {number} of {cycle}, epoch {epoch}" + (" does not begin" if over else "")
        case Done(result):
            return f"{name} epoch {result.epoch.number}"
        case StateRequest(number) | StateWritten(number):
            return f"{name} {number}"
        case Restore() | Finish() | Finished():
            return name
        case Failed(error):
            return f"{name}: {error}"

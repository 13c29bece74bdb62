"""Messages in a few words, for whoever reads a trace."""

from __future__ import annotations

from millstream.engines.workers.messages import (
    Allow,
    AskSave,
    Done,
    Failed,
    Message,
    Part,
    Read,
    Restore,
    Saved,
    Skip,
    Take,
)

__all__ = ["told"]


def told(message: Message) -> str:
    """A message in a few words.

    >>> told(Allow(3, 6))
    'Allow epochs 3 to 5'
    """
    name = type(message).__name__
    match message:
        case Allow(start, stop):
            return f"{name} epoch {start}" if stop == start + 1 else f"{name} epochs {start} to {stop - 1}"
        case Read(epoch, ranges):
            return f"{name} epoch {epoch}, {sum(part.stop - part.start for part in ranges)} records"
        case Take(epoch) | Skip(epoch):
            return f"{name} epoch {epoch.number}"
        case Part(hand):
            return f"{name} of epoch {hand.epoch}, {hand.records.num_rows} records"
        case Done(processed):
            return f"{name} epoch {processed.epoch.number}"
        case AskSave(number) | Saved(number):
            return f"{name} {number}"
        case Restore():
            return name
        case Failed(error):
            return f"{name}: {error}"

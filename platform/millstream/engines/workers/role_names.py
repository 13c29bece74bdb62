"""The names of the roles, and the sending of messages to them."""

from __future__ import annotations

from collections.abc import Callable

from millstream.engines.workers.messages import Message

__all__ = ["COORDINATOR", "SEQUENCER", "Send", "reader_names", "role_names"]

COORDINATOR = "coordinator"
SEQUENCER = "sequencer"

Send = Callable[[str, Message], None]
"""Sends a message to the role of this name."""


def reader_names(readers: int) -> list[str]:
    """The names of this number of readers.

    >>> reader_names(2)
    ['reader 0', 'reader 1']
    """
    return [f"reader {index}" for index in range(readers)]


def role_names(workers: int) -> list[str]:
    """The names of the roles for this number of workers, the sequencer last.

    >>> role_names(3)
    ['reader 0', 'reader 1', 'sequencer']
    """
    return [*reader_names(workers - 1), SEQUENCER]

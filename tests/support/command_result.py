"""A command line that ran in the process of the test: its exit code and its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CommandResult", "Millstream"]


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


Millstream = Callable[..., CommandResult]
"""Runs `millstream` with these arguments."""

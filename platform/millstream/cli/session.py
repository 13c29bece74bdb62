"""The state of one command line that outlives its command: the form in which its errors are printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click

from millstream.plain_text import printable, without_passwords

__all__ = ["Session", "current_session"]


def _print_error(message: str) -> None:
    click.echo(printable(f"millstream: {message}"), err=True)


@dataclass
class Session:
    """The way to print errors, and the function that removes secrets from them, which a command with a config sets."""

    redact: Callable[[str], str] = without_passwords
    print_error: Callable[[str], None] = _print_error

    def error(self, message: str) -> None:
        """Print an error without secrets and without control characters."""
        self.print_error(self.redact(message))


def current_session() -> Session:
    """The session of the command that is running."""
    context = click.get_current_context(silent=True)
    found = context.find_object(Session) if context is not None else None
    return found if found is not None else Session()

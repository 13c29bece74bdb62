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
    """The way to print errors, and the secrets that they may not show; a command that loads a config sets both."""

    redact: Callable[[str], str] = str
    print_error: Callable[[str], None] = _print_error

    def error(self, message: str) -> None:
        """Print an error without secrets and without control characters."""
        self.print_error(self.hide(message))

    def hide(self, text: str) -> str:
        """The text without the secrets of the config and the passwords of URLs."""
        return without_passwords(self.redact(text))


def current_session() -> Session:
    """The session of the command that is running."""
    context = click.get_current_context(silent=True)
    found = context.find_object(Session) if context is not None else None
    return found if found is not None else Session()

"""The state of one command line that outlives its command: the form of its errors and log messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click

from millstream.cli.log_lines import Level, display_line
from millstream.plain_text import indented
from millstream.redaction import without_passwords

__all__ = ["Session", "current_session"]


def _print_error(message: str) -> None:
    click.echo(indented(f"millstream: {message}"), err=True)


def _print_message(level: Level, message: str) -> None:
    click.echo(indented(display_line(level, message)), err=True)


@dataclass
class Session:
    """The ways to print errors and log messages, and the function that removes secrets from them.

    A command with a config sets the function. `verbose` passes debug messages too.
    """

    redact: Callable[[str], str] = without_passwords
    print_error: Callable[[str], None] = _print_error
    print_message: Callable[[Level, str], None] = _print_message
    verbose: bool = False

    def error(self, message: str) -> None:
        """Print an error without secrets and without control characters."""
        self.print_error(self.redact(message))

    def log(self, level: Level, message: str) -> None:
        """Print a log message without secrets and without control characters."""
        if self.verbose or level is not Level.DEBUG:
            self.print_message(level, self.redact(message))


def current_session() -> Session:
    """The session of the command that is running."""
    context = click.get_current_context(silent=True)
    found = context.find_object(Session) if context is not None else None
    return found if found is not None else Session()

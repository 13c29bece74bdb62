"""The messages of a run on standard error: the display for people, or log lines, without secrets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import click

from millstream.cli.epoch_lines import EpochLines
from millstream.cli.log_bridge import verbose_logging
from millstream.cli.log_lines import Level, LogForm, LogLines, display_line
from millstream.cli.screen import Screen, Show, standard_error
from millstream.cli.session import Session
from millstream.plain_text import indented

__all__ = ["RunLog", "log_options"]


def log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--log`, `-v` and `-q` to a command."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors."),
        click.option(
            "-v", "--verbose", is_flag=True, help="Print each epoch, each checkpoint and the messages of connectors."
        ),
        click.option(
            "--log",
            "log_form",
            type=click.Choice([form.value for form in LogForm]),
            help="Print lines with time, level, pipeline and epoch, as text or JSON, instead of the display.",
        ),
    ):
        command = option(command)
    return command


class RunLog:
    """The messages of one run. With `form`, also the error that ends the command is a log line."""

    def __init__(self, session: Session, form: str | None, *, verbose: bool, warnings_only: bool) -> None:
        self._session, self._verbose, self._warnings_only = session, verbose, warnings_only
        self._lines = lines = LogLines(LogForm(form), None) if form is not None else None
        if lines is not None:
            session.print_message = lambda level, message: click.echo(lines.line(level, message), err=True)
            session.print_error = lambda message: session.print_message(Level.ERROR, message)

    def begin(self, pipeline: str, redact: Callable[[str], str]) -> None:
        """Set the pipeline of the log lines, and the function that hides the secrets of its config."""
        self._session.redact = redact
        if self._lines is not None:
            self._lines.pipeline = pipeline

    @contextmanager
    def screen(self) -> Iterator[Screen]:
        """The screen of the run; it also shows log messages."""
        file = standard_error()
        show = Show.LIVE if file.isatty() and self._lines is None else Show.LINES
        screen = Screen(file, Show.WARNINGS if self._warnings_only else show, line=self._line, verbose=self._verbose)
        outside = self._session.print_message
        self._session.print_message, self._session.verbose = screen.log, self._verbose
        try:
            with verbose_logging() if self._verbose else nullcontext():
                yield screen
        finally:
            self._session.print_message, self._session.verbose = outside, False
            screen.close()
            if file is not sys.stderr:
                file.close()

    def epoch_lines(self, screen: Screen) -> EpochLines:
        """The observer that logs epochs and checkpoints."""
        return EpochLines(screen.log, self._lines)

    def _line(self, level: Level, message: str) -> str:
        """One line of the screen, which shows also messages of connectors; errors of the session have no secrets."""
        redacted = self._session.redact(message)
        return indented(display_line(level, redacted)) if self._lines is None else self._lines.line(level, redacted)

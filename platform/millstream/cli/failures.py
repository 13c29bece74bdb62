"""The message and the exit code of every exception that can end a command."""

from __future__ import annotations

import click

from millstream.errors import ConfigError, MillstreamError
from millstream.extras import explanation
from millstream.system_errors import system_error

__all__ = ["failure", "is_expected"]

_INTERRUPTED = 130
_DEFECT = "this is a defect, and --debug shows where"


def is_expected(error: BaseException) -> bool:
    """True for the end of a command that no traceback explains: a wrong command line, or an interrupt."""
    return isinstance(error, click.ClickException | click.Abort | KeyboardInterrupt)


def failure(error: BaseException) -> tuple[str, int]:
    """The message about an exception, and the exit code of the command that it ends."""
    if isinstance(error, click.ClickException):
        message = error.format_message()
        if isinstance(error, click.UsageError) and error.ctx is not None:
            message = f"{message}\n{error.ctx.get_usage()}"
        return message, error.exit_code
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "interrupted", _INTERRUPTED
    if isinstance(error, MillstreamError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        return _system_error(error)
    if missing := explanation(error, "this command"):
        return missing, ConfigError.exit_code
    return f"{type(error).__name__}: {error}; {_DEFECT}", MillstreamError.exit_code


def _system_error(error: OSError) -> tuple[str, int]:
    if (known := system_error(error)) is not None:
        return str(known), known.exit_code
    message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return f"{message}; {_DEFECT}", MillstreamError.exit_code

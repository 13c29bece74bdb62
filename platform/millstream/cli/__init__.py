"""The command line: one file per command, imported when it is used, so that `millstream --help` is quick."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import click

from millstream import __version__
from millstream.cli import plugin_commands
from millstream.errors import DISK_FULL, MillstreamError, Unavailable
from millstream.suggestions import suggestion

__all__ = ["main", "millstream"]

_COMMANDS = {
    "run": "Run a pipeline, or go on with its run directory.",
    "validate": "Check a config without running it.",
    "explain": "Show what a config runs, and what a crash does to its results.",
    "schema": "Print the JSON Schema of configs, for editors.",
    "read": "Print the rows of an output.",
    "predict": "Ask the model of a run.",
    "status": "Show how far a run is.",
    "audit": "Count what crashes did to a run's results.",
    "simulate": "Crash a pipeline in simulated runs, and hold each against its promise.",
    "log": "List, read and append to logs.",
}


class _Commands(click.Group):
    """Commands by name: those of the table above, whose module and command in it have that name, then plug-ins'."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *(name for name in plugin_commands.names() if name not in _COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            command: click.Command = getattr(importlib.import_module(f"millstream.cli.{cmd_name}"), cmd_name)
            return command
        return plugin_commands.command(cmd_name) if cmd_name in plugin_commands.names() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {name: _COMMANDS.get(name) or plugin_commands.one_line(name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(list(lines.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            known = self.list_commands(ctx)
            if args[0] not in known:
                meant = suggestion(args[0], known, f"there are {', '.join(known)}")
                ctx.fail(f"there is no command {args[0]!r}{meant}")
        return super().resolve_command(ctx, args)


_DEFECT = "this is a defect, and --debug shows where"
_OUTSIDE: Mapping[int | None, str] = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.EROFS: "choose a place that can be written to",
    errno.EACCES: "choose a place that you may read and write",
    errno.EPERM: "choose a place that you may read and write",
    errno.EMFILE: "allow more open files (ulimit -n)",
}
"""What the machine refuses, and what can be done about it."""


def _refused(error: OSError) -> int:
    """Report an error of the operating system; the exit code."""
    message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    known = error.errno in _OUTSIDE
    hint = f"{_OUTSIDE[error.errno]}, and run the same command again" if known else _DEFECT
    click.echo(f"millstream: {message}; {hint}", err=True)
    return Unavailable.exit_code if error.errno in DISK_FULL else MillstreamError.exit_code


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="millstream", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks; may stand anywhere.")
def millstream(debug: bool) -> None:
    """Online-learning pipelines over text streams, each with a delivery guarantee of its own."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code that scripts rely on."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    code = _run([argument for argument in given if argument != "--debug"], debug)
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader of the output has closed it, having read enough
            code = code or _refused(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries to write it again
    sys.exit(code)


def _run(arguments: list[str], debug: bool) -> int:
    try:
        code = millstream.main(args=arguments, prog_name="millstream", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        return 2
    except click.ClickException as wrong:
        message = wrong.format_message()
        if isinstance(wrong, click.UsageError) and wrong.ctx is not None:
            message = f"{message}\n{wrong.ctx.get_usage()}"
        click.echo(f"millstream: {message}", err=True)
        return wrong.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("millstream: interrupted", err=True)
        return 130
    except MillstreamError as error:
        if debug:
            raise
        click.echo(f"millstream: {error}", err=True)
        return error.exit_code
    except OSError as error:
        if debug:
            raise
        return _refused(error)
    except Exception as error:
        if debug:
            raise
        message = f"{type(error).__name__}: {error}; {_DEFECT}"
        click.echo(f"millstream: {message}", err=True)
        return 1
    return code if isinstance(code, int) else 0

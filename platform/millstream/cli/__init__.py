"""The command line: one file per command, imported when the command is used, so that `millstream --help` is quick."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from millstream import __version__
from millstream.cli import plugin_commands
from millstream.errors import MillstreamError
from millstream.suggestions import suggestion
from millstream.system_errors import system_error

__all__ = ["main", "millstream"]

_COMMANDS = {
    "run": "Run a pipeline, or continue its run directory.",
    "validate": "Check a config without running it.",
    "explain": "Show the steps of a config, and the effect of a crash on its results.",
    "schema": "Print the JSON Schema of configs, for editors.",
    "read": "Print the rows of an output.",
    "predict": "Predict the label of a text with the model of a run.",
    "status": "Show the progress of a run.",
    "audit": "Count the effects of crashes on a run's results.",
    "simulate": "Simulate crashes of a pipeline, and check its delivery guarantee.",
    "log": "List, read and append to logs.",
}


class _Commands(click.Group):
    """The commands of the table above, then those of plug-ins. A command of the table has the name of its module."""

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


def _report(error: OSError) -> int:
    """Report an error of the operating system, and return the exit code."""
    if (known := system_error(error)) is not None:
        click.echo(f"millstream: {known}", err=True)
        return known.exit_code
    message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    click.echo(f"millstream: {message}; {_DEFECT}", err=True)
    return MillstreamError.exit_code


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="millstream", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks; allowed anywhere on the command line.")
def millstream(debug: bool) -> None:
    """Run online-learning pipelines over text streams, each with its own delivery guarantee."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with one of the documented exit codes."""
    importlib.import_module("millstream.blas_threads")  # before numpy; the import of this module changes nothing
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    code = _run([argument for argument in given if argument != "--debug"], debug)
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader closed the pipe, which is no error
            code = code or _report(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python writes again at exit
    sys.exit(code)


def _run(arguments: list[str], debug: bool) -> int:
    try:
        code = millstream.main(args=arguments, prog_name="millstream", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        message = error.format_message()
        if isinstance(error, click.UsageError) and error.ctx is not None:
            message = f"{message}\n{error.ctx.get_usage()}"
        click.echo(f"millstream: {message}", err=True)
        return error.exit_code
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
        return _report(error)
    except Exception as error:
        if debug:
            raise
        message = f"{type(error).__name__}: {error}; {_DEFECT}"
        click.echo(f"millstream: {message}", err=True)
        return 1
    return code if isinstance(code, int) else 0

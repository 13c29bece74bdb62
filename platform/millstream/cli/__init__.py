"""The command line: one file per command, imported when the command is used, so that `millstream --help` is quick."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from millstream import __version__
from millstream.cli import plugin_commands
from millstream.cli.failures import failure, is_expected
from millstream.cli.log_bridge import show_logging
from millstream.cli.module_path import current_folder_importable
from millstream.cli.session import Session
from millstream.plain_text import indented
from millstream.suggestions import suggestion

__all__ = ["main", "millstream"]

_COMMANDS = {
    "run": "Run a pipeline, or continue its run directory.",
    "validate": "Check a config without running it.",
    "explain": "Show the steps of a config, and the effect of a crash on its results.",
    "config": "Print a config with its defaults, and the origin of every value.",
    "init": "Write a small project that runs at once.",
    "doctor": "Check this machine, and what a config needs.",
    "schema": "Print the JSON Schema of configs, for editors.",
    "read": "Print the rows of an output.",
    "predict": "Predict the label of a text with the model of a run.",
    "export": "Register the model of a run in MLflow.",
    "promote": "Make a registered version the champion, which pipelines follow.",
    "status": "Show the progress of a run.",
    "ls": "List run directories.",
    "stop": "End a run after its epoch, and wait for the end.",
    "fork": "Begin a new run from a checkpoint of another one.",
    "savepoint": "Keep the newest checkpoint of a run under a name.",
    "audit": "Count the effects of crashes on a run's results.",
    "advise": "Predict the effect of failures on results under each guarantee.",
    "simulate": "Simulate crashes of a pipeline, and check its delivery guarantee.",
    "backfill": "Compute the features of a whole history, on Spark.",
    "train": "Train a model on a whole history, on Spark.",
    "compare": "Compare two runs, or deliveries and failures in many trials.",
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


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="millstream", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks; allowed anywhere on the command line.")
def millstream(debug: bool) -> None:
    """Run online-learning pipelines over text streams, each with its own delivery guarantee."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with one of the documented exit codes."""
    importlib.import_module("millstream.blas_threads")  # before numpy; the import of this module changes nothing
    given = list(sys.argv[1:] if arguments is None else arguments)
    session = Session()
    with current_folder_importable(), show_logging(session.log):
        code = _run([argument for argument in given if argument != "--debug"], session, debug="--debug" in given)
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and not code:  # a closed pipe is no error: its reader has enough
            message, code = failure(error)
            session.error(message)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python writes again at exit
    sys.exit(code)


def _run(arguments: list[str], session: Session, *, debug: bool) -> int:
    try:
        code = millstream.main(args=arguments, prog_name="millstream", standalone_mode=False, obj=session)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        message, exit_code = failure(error)
        if debug and not is_expected(error):
            click.echo(indented(session.redact(traceback.format_exc().rstrip())), err=True)
        else:
            session.error(message)
        return exit_code
    return code if isinstance(code, int) else 0

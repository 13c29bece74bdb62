"""`millstream stop`: asks a run to end after its epoch, and waits until it has."""

from __future__ import annotations

import time
from pathlib import Path

import click

from millstream.plain_text import one_line

__all__ = ["stop"]

_POLL_SECONDS, _LINE_SECONDS = 0.1, 5.0


@click.command()
@click.argument("run", metavar="RUN", type=click.Path())
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="The longest time to wait for the end; without it, the command waits until the run has ended.",
)
def stop(run: str, timeout: float | None) -> int:
    """End RUN as Ctrl-C does: after its epoch, with a checkpoint. The same `run` command continues it.

    Exits with 0 if the run has ended cleanly or was not running, with 1 if it ended in another way, and with 4 if it
    has not ended within --timeout; the run still ends then.
    """
    from millstream.runs.directory import RunDirectory
    from millstream.runs.stop_request import has_ended, request_stop

    directory = RunDirectory.find(Path(run))
    process = request_stop(directory)
    if process is None:
        _echo(f"{run} is not running")
        return 0
    _echo(f"process {process} stops {run} after the epoch in progress ...", err=True)
    began = shown = time.monotonic()
    while not has_ended(directory, process):
        now = time.monotonic()
        if timeout is not None and now - began >= timeout:
            _refuse_to_wait(run, process, timeout)
        if now - shown >= _LINE_SECONDS:
            click.echo(f"process {process} has not ended after {now - began:.0f} s", err=True)
            shown = now
        time.sleep(_POLL_SECONDS)
    return _report(run)


def _refuse_to_wait(run: str, process: int, timeout: float) -> None:
    from millstream.errors import Unavailable

    message = (
        f"process {process} has not ended {run} within {timeout:g} s; it ends after its epoch, "
        "and the same command waits again"
    )
    raise Unavailable(message)


def _report(run: str) -> int:
    from millstream.runs.watch.run_list import run_entry

    entry = run_entry(Path(run), time.time())
    if entry.state == "running":
        _echo(f"{run} has stopped, and another process has started it again")
    elif entry.state == "ended":
        _echo(f"{run} has stopped, with {entry.records or 0:,} records; the same `run` command continues it")
    else:
        _echo(f"{run} is {entry.state}; `millstream status {run}` shows more", err=True)
        return 1
    return 0


def _echo(line: str, *, err: bool = False) -> None:
    click.echo(one_line(line), err=err)

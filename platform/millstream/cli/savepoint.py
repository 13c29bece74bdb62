"""`millstream savepoint`: gives the newest checkpoint of a run a name, so that it is kept."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from millstream.plain_text import one_line

__all__ = ["savepoint"]


@click.command()
@click.argument("run", metavar="RUN", type=click.Path())
@click.argument("name", metavar="NAME")
@click.option("--delete", "deletes", is_flag=True, help="Delete the savepoint NAME.")
def savepoint(run: str, name: str, deletes: bool) -> None:
    """Give the newest checkpoint of RUN a NAME: it is kept, whatever `keep` says, until the savepoint is deleted.

    RUN may go on meanwhile. `millstream fork RUN CONFIG --at NAME --run DIR` begins there, and `millstream status RUN`
    lists the savepoints.
    """
    from millstream.runs.directory import RunDirectory
    from millstream.runs.savepoint import delete_savepoint, make_savepoint

    directory = RunDirectory.find(Path(run))
    if deletes:
        gone = delete_savepoint(directory, name)
        click.echo(one_line(f"deleted the savepoint {name} of {run}, checkpoint {gone.checkpoint}"))
        return
    made = make_savepoint(directory, name)
    click.echo(one_line(f"{name} is checkpoint {made.number} of {run}, after epoch {made.epoch:,}"))
    words = ["millstream", "fork", run, "CONFIG", "--at", name, "--run", "DIR"]
    click.echo(one_line(f"begin there with: {shlex.join(words)}"))

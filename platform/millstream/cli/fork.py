"""`millstream fork`: a new run that begins with the state of another one, with another config if wanted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.plain_text import one_line

if TYPE_CHECKING:
    from millstream.runs.fork import Fork

__all__ = ["fork"]


@click.command()
@click.argument("original", metavar="RUN", type=click.Path())
@config_options
@click.option("--run", "directory", metavar="DIR", required=True, help="The run directory of the fork, a new folder.")
@click.option(
    "--at",
    metavar="EPOCH",
    help="Leave RUN after this epoch, or at the savepoint of this name. Default: after its last committed epoch.",
)
@click.option("--from-start", is_flag=True, help="Replay all epochs of RUN from its beginning, and keep no state.")
def fork(
    original: str,
    config: str,
    sets: tuple[str, ...],
    overlays: tuple[str, ...],
    directory: str,
    at: str | None,
    from_start: bool,
) -> None:
    """Make DIR, a run that begins with the state of RUN, with CONFIG, which may have other options, steps and sources.

    The fork begins at the newest checkpoint of RUN that is not after EPOCH. It replays the epochs of RUN after that in
    the same cuts, then it goes on with cuts of its own: `millstream run CONFIG --run DIR`. Steps of the same name keep
    their state, unless a change gives it another meaning. RUN stays as it is, may go on, and may be deleted.
    """
    from millstream.config.load import load_config
    from millstream.runs.directory import RunDirectory
    from millstream.runs.fork import fork_run

    found = RunDirectory.find(Path(original))
    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    point = int(at) if at is not None and at.isdecimal() else at
    made = fork_run(found, loaded, Path(directory), at=point, from_start=from_start)
    for line in _lines(made):
        click.echo(one_line(line))
    changes = [
        word for option, given in (("--with", overlays), ("--set", sets)) for each in given for word in (option, each)
    ]
    click.echo(one_line(f"go on with: {shlex.join(['millstream', 'run', config, *changes, '--run', directory])}"))


def _lines(made: Fork) -> Iterator[str]:
    if made.checkpoint is None:
        yield f"{made.run} begins with nothing, as {made.original} did"
    else:
        yield f"{made.run} begins after epoch {made.epoch:,} of {made.original}, with its checkpoint {made.checkpoint}"
    yield f"  to replay  {_counted(made.epochs, 'epoch')} with {_counted(made.records, 'record')}, in the same cuts"
    width = max((len(each.step) for each in made.steps), default=0)
    for step in made.steps:
        yield f"  step       {step.step:<{width}}  {step.describe()}"
    width = max((len(each.source) for each in made.sources), default=0)
    for source in made.sources:
        yield f"  source     {source.source:<{width}}  {source.describe()}"


def _counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> _counted(1, "epoch"), _counted(2000, "epoch")
    ('1 epoch', '2,000 epochs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""`millstream promote NAME VERSION`: a registered version becomes the champion, and running pipelines follow."""

from __future__ import annotations

from dataclasses import asdict

import click

from millstream.plain_text import json_object, one_line

__all__ = ["promote"]

_CAUGHT_UP = "the version learns the records that it lacks in the background, and then takes the model's place"
_AS_IS = "the version takes the model's place at once; the epoch log says how many records it skips or repeats"


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("version", metavar="VERSION", type=click.IntRange(min=1))
@click.option("--as-is", is_flag=True, help="Pipelines take the version at once, without the records that it lacks.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: name, version, uri, digest, before.")
def promote(name: str, version: int, as_is: bool, as_json: bool) -> None:
    """Let the alias `champion` of the model NAME in MLflow name this VERSION.

    Running pipelines follow, if their step has a `shadow` and takes its model or its shadow from NAME: the version
    enters as the shadow, catches up with the stream, and takes the model's place without a rule. A pipeline that is
    stopped now follows when it starts again. The store is that of MLFLOW_TRACKING_URI, else the file mlflow.db in this
    folder.
    """
    from millstream.registry.champion import promote as make_champion

    made = make_champion(name, version, as_is=as_is)
    if as_json:
        click.echo(json_object({**asdict(made), "uri": made.uri}))
        return
    before = "for the first time" if made.before is None else f"before: {made.before}"
    click.echo(one_line(f"{made.uri} is the champion of {name} ({before}), digest {made.digest}"))
    click.echo(one_line(f"  follow  running pipelines whose step has a `shadow`: {_AS_IS if as_is else _CAUGHT_UP}"))
    click.echo(one_line("  see it  millstream status RUN"))
    click.echo(one_line(f"  store   {made.store}"))

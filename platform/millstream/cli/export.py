"""`millstream export RUN --mlflow NAME`: the model of a run becomes a version in the registry of MLflow."""

from __future__ import annotations

from dataclasses import asdict

import click

from millstream.api.run import open_run_as_given
from millstream.plain_text import json_object, one_line

__all__ = ["export"]


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--mlflow", "name", metavar="NAME", required=True, help="The name of the model in MLflow.")
@click.option("--step", metavar="NAME", help="The step of the model, if several steps classify.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: name, version, uri, digest, records.")
def export(run: str, name: str, step: str | None, as_json: bool) -> None:
    """Register the model of RUN in MLflow, as the next version of the model NAME.

    The version predicts raw text with MLflow's own loader, where Millstream is not installed. It has the newest
    checkpoint; RUN may be running at the same time. The store is that of the config's `mlflow`, else of
    MLFLOW_TRACKING_URI, else the file mlflow.db in this folder.
    """
    made = open_run_as_given(run).export(name, step=step)
    if as_json:
        click.echo(json_object({**asdict(made), "uri": made.uri}))
        return
    click.echo(one_line(f"{made.uri}: trained up to {made.records:,} records, digest {made.digest}"))
    click.echo(one_line(f'  load   mlflow.pyfunc.load_model("{made.uri}")'))
    click.echo(one_line(f"  store  {made.store}"))

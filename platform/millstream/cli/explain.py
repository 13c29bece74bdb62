"""`millstream explain`: the steps of a config, the processes that run them, and the effects of a crash."""

from __future__ import annotations

import sys

import click

from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.plain_text import json_object

__all__ = ["explain"]


@click.command()
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(config: str, sets: tuple[str, ...], overlays: tuple[str, ...], as_json: bool) -> None:
    """Show the steps, outputs and sinks of CONFIG, and the worst effect of a crash at each point of an epoch.

    The command runs nothing and reads no records. The worst effect is the worst over all epochs, given
    `checkpoint_every` and `commit_every` of CONFIG.
    """
    from millstream.api.explanation import explanation_of
    from millstream.config.load import load_config

    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    content = explanation_of(loaded).content
    if as_json:
        click.echo(json_object(content, indent=2))
        return
    from millstream.api.explanation_text import explanation_text

    click.echo(explanation_text(content, terminal=sys.stdout.isatty()))

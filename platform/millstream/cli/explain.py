"""`millstream explain`: the steps of a config, the processes that run them, and the effects of a crash."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.errors import ConfigError
from millstream.plain_text import json_object

if TYPE_CHECKING:
    from millstream.api.graph_picture import Picture

__all__ = ["explain"]


@click.command()
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--graph",
    is_flag=False,
    flag_value="",
    metavar="[FILE.svg]",
    help="Print the graph of the steps as Mermaid text, or draw it into an SVG file.",
)
def explain(config: str, sets: tuple[str, ...], overlays: tuple[str, ...], as_json: bool, graph: str | None) -> None:
    """Show the steps, outputs and sinks of CONFIG, and the worst effect of a crash at each point of an epoch.

    The command runs nothing and reads no records. The worst effect is the worst over all epochs, given
    `checkpoint_every` and `commit_every` of CONFIG.
    """
    from millstream.api.explanation import explanation_of
    from millstream.config.load import load_config

    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    if graph and not graph.endswith(".svg"):
        message = f"--graph writes SVG, and {graph!r} does not end with .svg; without a file, it prints Mermaid text"
        raise ConfigError(message)
    explanation = explanation_of(loaded)
    content = explanation.content
    if graph is not None:
        _show_graph(explanation.picture, graph, content["name"])
        return
    if as_json:
        click.echo(json_object(content, indent=2))
        return
    from millstream.api.explanation_text import explanation_text

    click.echo(explanation_text(content, terminal=sys.stdout.isatty()))


def _show_graph(picture: Picture, file: str, name: str) -> None:
    """Print the picture as Mermaid text, or write it into an SVG file."""
    if not file:
        from millstream.api.graph_mermaid import mermaid

        click.echo(mermaid(picture))
        return
    from millstream.api.graph_svg import svg

    Path(file).write_text(svg(picture, f"The graph of {name}"), encoding="utf-8")
    click.echo(f"the graph is in {file}")

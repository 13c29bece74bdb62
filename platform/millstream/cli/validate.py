"""`millstream validate`: reports every problem of a config that can be found without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.config.load import Loaded, load_config
from millstream.plain_text import one_line
from millstream.shadow_names import is_shadow

if TYPE_CHECKING:
    from millstream.steps.graph import Graph

__all__ = ["validate"]


@click.command()
@config_options
def validate(config: str, sets: tuple[str, ...], overlays: tuple[str, ...]) -> None:
    """Check CONFIG without running it: the command reads no records, asks no broker and starts no Spark.

    It prints one line, or exits with 2 and prints every problem.
    """
    from millstream.guarantees.validation import checked_graph

    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    graph = checked_graph(loaded)
    summary = _summary(loaded, graph)
    if loaded.config.search is not None:
        from millstream.history.search.candidates import candidates_of

        summary = f"{summary}; a search of {len(candidates_of(loaded)):,} candidates"
    click.echo(one_line(f"{config}: valid ({summary})"))


def _summary(loaded: Loaded, graph: Graph) -> str:
    config = loaded.config
    sources = " + ".join(str(source.config.type) for source in config.logs)
    steps = " -> ".join(node.name for node in graph.steps if not is_shadow(node.name))
    if not graph.is_chain:
        steps = ", ".join(f"{node.name} (from {' + '.join(node.reads)})" for node in graph.steps)
    if graph.is_chain and (shadows := [node.name for node in graph.steps if is_shadow(node.name)]):
        steps = f"{steps} (with {', '.join(shadows)})"
    flow = f"{sources} -> {steps} -> {', '.join(graph.outputs)}"
    return f"{config.name}: {flow}; {config.guarantee.delivery} on {config.engine.type}"

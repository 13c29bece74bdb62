"""`millstream schema`: the JSON Schema of configs, with the parts of all plug-ins that are installed."""

from __future__ import annotations

import json

import click

__all__ = ["schema"]


@click.command()
def schema() -> None:
    """Print the JSON Schema of configs, for editors to complete and check them.

    Save it beside the configs, and begin each with:
    # yaml-language-server: $schema=./millstream.schema.json
    """
    from millstream.config.schema import config_schema

    click.echo(json.dumps(config_schema(), indent=2, ensure_ascii=False))

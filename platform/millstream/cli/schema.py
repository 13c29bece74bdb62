"""`millstream schema`: the JSON Schema of configs, with the options of all installed plug-ins."""

from __future__ import annotations

import click

from millstream.plain_text import json_object

__all__ = ["schema"]


@click.command()
def schema() -> None:
    """Print the JSON Schema of configs, with which editors complete and check YAML.

    Write it to a file beside the configs, and begin each config with:
    # yaml-language-server: $schema=./millstream.schema.json
    """
    from millstream.config.schema import config_schema

    click.echo(json_object(config_schema(), indent=2))

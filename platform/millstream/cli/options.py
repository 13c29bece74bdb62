"""Arguments that several commands take."""

from __future__ import annotations

import click

__all__ = ["config_file", "sets"]

config_file = click.argument("config", metavar="CONFIG")
sets = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value of the config, as in --set engine.type=local.",
)

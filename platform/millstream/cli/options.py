"""Arguments that several commands take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["config_options", "optional_config_options"]

R = TypeVar("R")

_OPTIONS = (
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change a value of the config, as in --set engine.type=local.",
    ),
    click.option(
        "--with",
        "overlays",
        multiple=True,
        type=click.Path(),
        metavar="FILE",
        help="Merge this overlay, a YAML file, over the config.",
    ),
    click.option(
        "--env", "environment", metavar="NAME", help="Merge CONFIG.NAME.yaml, which is beside CONFIG.yaml, first."
    ),
)


def config_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the argument CONFIG and the options that change a config.

    The command is called with `config`, `sets` and `overlays`; the overlay of `--env` comes before those of `--with`.
    """
    return _with_options(command, required=True)


def optional_config_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options of `config_options`, with a CONFIG that may be left out."""
    return _with_options(command, required=False)


def _with_options(command: Callable[..., R], *, required: bool) -> Callable[..., R]:
    @functools.wraps(command)
    def with_overlays(
        *arguments: Any, config: str | None, overlays: tuple[str, ...], environment: str | None, **options: Any
    ) -> R:
        if config is None and (environment is not None or overlays or options.get("sets")):
            message = "--set, --with and --env change a config; name the CONFIG"
            raise click.UsageError(message)
        if environment is not None and config is not None:
            from millstream.config.overlays import environment_overlay

            overlays = (str(environment_overlay(config, environment)), *overlays)
        return command(*arguments, config=config, overlays=overlays, **options)

    decorated: Callable[..., R] = with_overlays
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return click.argument("config", metavar="CONFIG" if required else "[CONFIG]", type=click.Path(), required=required)(
        decorated
    )

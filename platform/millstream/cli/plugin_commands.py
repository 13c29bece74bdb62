"""Commands of other packages, found through the entry points of the group `millstream.commands`.

    [project.entry-points."millstream.commands"]
    my_command = "my_package.my_command:my_command"

The entry point is a click command. `millstream --help` imports its module too, so slow imports belong inside the
command.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from millstream.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "command", "names", "one_line"]

GROUP = "millstream.commands"


@functools.cache
def _points() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points by name; several if packages register the same name."""
    from importlib.metadata import entry_points  # a slow import

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        claims = found.setdefault(point.name, [])
        if all(point.value != claim.value for claim in claims):  # a folder twice on sys.path counts once
            claims.append(point)
    return {name: tuple(found[name]) for name in sorted(found)}


def names() -> list[str]:
    """Return the names of all installed commands, including broken ones."""
    return list(_points())


def command(name: str) -> click.Command:
    """Return the command of this name; `ConfigError` if it is broken."""
    points = _points()[name]
    origins = [f"{point.value} of {point.dist.name if point.dist else 'an unknown package'}" for point in points]
    if len(points) > 1:
        raise ConfigError(f"{' and '.join(origins)} both register the command {name!r}; uninstall one of them")
    subject = f"the command {name!r} ({origins[0]})"
    try:
        loaded = points[0].load()
    except Exception as error:
        raise ConfigError(f"{subject} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(loaded, click.Command):
        raise ConfigError(f"{subject} is not a click command; its author has to register one")
    return loaded


def one_line(name: str) -> str:
    """Return the line of `millstream --help` about a command."""
    try:
        return command(name).get_short_help_str(limit=80)
    except ConfigError as error:
        return f"Not usable: {error}"

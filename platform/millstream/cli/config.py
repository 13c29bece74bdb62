"""`millstream config`: the resolved config, with the origin of every value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.plain_text import json_object, one_line

if TYPE_CHECKING:
    from millstream.config.document import KeyPath
    from millstream.config.origins import Origin

__all__ = ["config"]

_WIDEST = 60
"""The column that comments are moved to at most."""


@click.command()
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def config(config: str, sets: tuple[str, ...], overlays: tuple[str, ...], as_json: bool) -> None:
    """Print CONFIG with its defaults, its overlays and the values of --set, and the origin of every value.

    The output is a config too. Values from the environment and from files stay references, as in ${NAME}.
    """
    from millstream.api.config import config_of
    from millstream.config.load import load_config

    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    made = config_of(loaded)
    resolved, found = made.resolved(), made.origins()
    if as_json:
        by_name = {name: _as_object(origin) for name, origin in found.items()}
        found_json = {"config": config, "resolved": resolved, "origins": by_name}
        click.echo(json_object(found_json))
        return
    lines = list(_lines(resolved, found, ()))
    width = min(_WIDEST, max(len(text) for text, _ in lines))
    for text, origin in lines:
        click.echo(one_line(f"{text:<{width}}  # {origin}" if origin else text))


def _as_object(origin: Origin) -> dict[str, Any]:
    found: dict[str, Any] = {"from": origin.kind}
    if origin.file is not None:
        found |= {"file": origin.file, "line": origin.line}
    if origin.references:
        found["references"] = list(origin.references)
    return found


def _lines(data: Any, origins: Mapping[str, Origin], path: KeyPath) -> Iterator[tuple[str, str]]:
    """Yield the lines of a mapping or a list as YAML, each with the origin of its value, if it has one."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in entries:
        here = (*path, key)
        nested = list(_lines(value, origins, here)) if isinstance(value, dict | list) and value else []
        if isinstance(data, list):
            nested = nested or [(_scalar(value), _comment(origins, here))]
            yield from ((f"{'  ' if row else '- '}{text}", origin) for row, (text, origin) in enumerate(nested))
        elif nested:
            yield f"{_scalar(key)}:", ""
            yield from ((f"  {text}", origin) for text, origin in nested)
        else:
            yield f"{_scalar(key)}: {_scalar(value)}", _comment(origins, here)


def _comment(origins: Mapping[str, Origin], path: KeyPath) -> str:
    origin = origins[".".join(map(str, path))]
    return f"--{origin}" if origin.kind == "set" else str(origin)


def _scalar(value: Any) -> str:
    """Return a single value, or an empty mapping or list, as YAML in one line.

    >>> [_scalar(value) for value in ("a", "true", True, None, 0.1, {}, "a line\\n")]
    ['a', "'true'", 'true', 'null', '0.1', '{}', '"a line\\\\n"']
    """
    import yaml

    style = '"' if isinstance(value, str) and value.splitlines() not in ([], [value]) else None  # has a line break
    text: str = yaml.safe_dump(value, default_style=style, default_flow_style=True, width=math.inf, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")

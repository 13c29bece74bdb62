"""Messages for programs: a program gives an argument, `fresh=True`, where a command has an option, `--fresh`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from millstream.errors import ConfigError, MillstreamError

__all__ = ["naming_arguments"]

_OPTIONS = re.compile(
    r"`millstream run CONFIG --run DIR --replay (?P<replayed>[^`]*?)(?: --set (?P<set>[^=`]+)=(?P<to>[^` ]*))?`"
    r"|(?P<command>`millstream [^`]*`)"
    r"|`--set (?P<key>[^=`]+)=(?P<value>[^`]*)`"
    r"|(?P<place>\(--set\))"
    r"|(?P<fresh>(?<![\w-])--fresh\b)"
    r"|(?P<debug>--debug shows more)"
    r"|(?<![\w-])--(?P<name>crash|follow|out|records|replay|run)\b"
)
_LITERALS = {"null": "None", "true": "True", "false": "False"}
"""Values of YAML that Python writes otherwise."""


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Name arguments in place of options in the errors that pass."""
    try:
        yield
    except MillstreamError as error:
        error.args = tuple(_with_arguments(part) if isinstance(part, str) else part for part in error.args)
        if isinstance(error, ConfigError):
            error.problems = tuple(
                replace(each, where=_with_arguments(each.where), message=_with_arguments(each.message))
                for each in error.problems
            )
        raise


def _with_arguments(text: str) -> str:
    """Return a message with arguments in place of options; a command in it stays.

    >>> _with_arguments("use --fresh to start over, or another --run")
    'use fresh=True to start over, or another `run`'
    >>> _with_arguments("choose the local engine: `--set engine.type=local`")
    'choose the local engine: `set={"engine.type": "local"}`'
    >>> _with_arguments("make it with `millstream run CONFIG --run DIR --replay runs/demo --set keep=null`")
    'make it with `ms.run(config, run=..., replay="runs/demo", set={"keep": None})`'
    """
    return _OPTIONS.sub(_argument, text)


def _argument(found: re.Match[str]) -> str:
    if found["key"]:
        return f'`set={{"{found["key"]}": "{found["value"]}"}}`'
    if found["replayed"]:
        change = f', set={{"{found["set"]}": {_LITERALS.get(found["to"], found["to"])}}}' if found["set"] else ""
        return f'`ms.run(config, run=..., replay="{found["replayed"]}"{change})`'
    if found["name"]:
        return f"`{found['name']}`"
    others = {"command": found["command"], "place": "(set)", "fresh": "fresh=True", "debug": "its cause shows more"}
    return others[str(found.lastgroup)] or ""

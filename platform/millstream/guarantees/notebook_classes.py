"""Classes and functions that only one process has, such as those of a notebook: other processes cannot import them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from millstream.config.document import KeyPath, Problem
from millstream.config.models import Config
from millstream.config.pipeline import NamedStep
from millstream.config.sources import TimedSource

__all__ = ["notebook_problems", "unimportable_classes", "unimportable_names"]

_MAIN = "__main__"


def notebook_problems(config: Config) -> list[Problem]:
    """Return a problem for each class and function of a notebook or a script, if the engine has other processes."""
    engine = config.engine
    if engine.type == "local" and engine.workers == 1:
        return []
    where = "Spark's workers" if engine.type == "spark" else "the worker processes"
    return [
        Problem(
            path,
            f"{where} cannot import {name}, which a notebook, a script or a function defines; move it into a module, "
            "or run in one process with `engine: {type: local, workers: 1}`",
        )
        for name, path in unimportable_classes(config).items()
    ]


def unimportable_classes(config: Config) -> dict[str, KeyPath]:
    """Return the names of classes and functions that another process cannot import, with their first key paths."""
    found: dict[str, KeyPath] = {}
    parts = {"source": config.source, "sources": config.sources, "pipeline": config.pipeline, "sinks": config.sinks}
    for key, part in parts.items():
        for path, name in unimportable_names(part, (key,)):
            found.setdefault(name, path)
    for step in config.steps:
        for path, name in unimportable_names(step.config, step.path):
            found.setdefault(name, path)
    return found


def unimportable_names(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield the names of classes and functions that another process cannot import, each with its key path."""
    if isinstance(value, str):
        if value.startswith(f"{_MAIN}:"):
            yield path, value.removeprefix(f"{_MAIN}:")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from unimportable_names(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from unimportable_names(inner, (*path, index))
    elif isinstance(value, BaseModel):
        kind = type(value)
        if kind.__module__ == _MAIN or "<locals>" in kind.__qualname__:
            yield path, kind.__name__
        for name in kind.model_fields:
            yield from unimportable_names(getattr(value, name), (*path, name))
    elif isinstance(value, TimedSource | NamedStep):
        yield from unimportable_names(value.config, path)

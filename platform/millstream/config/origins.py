"""The origin of every value of a resolved config: a line of a file, a value of `set`, or a default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from millstream.config.document import FileLine, KeyPath
from millstream.config.load import Loaded
from millstream.config.references import referenced

__all__ = ["Origin", "origins"]


@dataclass(frozen=True)
class Origin:
    """The origin of one value. `references` names environment variables, and files as `file:PATH`.

    >>> print(Origin("file", "news.yaml", 4, ("DATA",)))
    news.yaml:4, environment DATA
    """

    kind: Literal["file", "set", "default"]
    file: str | None = None
    line: int | None = None
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = self.kind if self.kind != "file" else str(FileLine(self.file or "", self.line))
        outside = [
            f"file {name.removeprefix('file:')}" if name.startswith("file:") else f"environment {name}"
            for name in self.references
        ]
        return ", ".join([place, *outside])


def origins(loaded: Loaded) -> dict[KeyPath, Origin]:
    """Return the origin of every single value of `loaded.resolved()`, by its key path."""
    return {path: _origin(loaded, path) for path in _leaves(loaded.resolved(), ())}


def _leaves(data: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the key paths of single values, and of empty mappings and lists."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(data, list) and data:
        for index, value in enumerate(data):
            yield from _leaves(value, (*path, index))
    else:
        yield path


def _origin(loaded: Loaded, path: KeyPath) -> Origin:
    given = _given(loaded.document.data, path)
    if given is None:
        return Origin("default")
    document = loaded.document
    place = document.where(given)
    references = tuple(referenced(document.references.get(given, "")))
    if isinstance(place, FileLine):
        return Origin("file", place.file, place.line, references)
    if isinstance(place, int):
        return Origin("file", loaded.file, place, references)
    return Origin("set" if place is not None else "file", None if place else loaded.file, None, references)


def _given(data: Any, path: KeyPath) -> KeyPath | None:
    """Return the key path of the given value that a resolved value comes from; None if nothing is given there."""
    for depth, part in enumerate(path):
        inside: Any = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(inside, dict) and part in inside:
            data = inside[part]
        else:
            # A validator may have expanded a single value; a mapping, a list or a null has defaults below it.
            return None if data is None or isinstance(data, dict | list) else path[:depth]
    return path

"""Overlays: files that change a config, merged over it key by key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millstream.config.document import Document, FileLine, KeyPath, Problem, parse
from millstream.config.files import config_text
from millstream.config.pipeline import NAME
from millstream.errors import ConfigError
from millstream.suggestions import suggestion

__all__ = ["environment_overlay", "merge_overlays"]

_SELECTORS = ("type", "use")
_SELECT_NOTHING = ("engine", "fields", "headers")
"""Mappings whose key `type` selects no plug-in: the options of engines are the same, and the others name fields."""
_ENTRIES = {("sinks",), ("sources",), ("engine", "placement")}
"""Mappings with names of the user as keys: a null removes an entry."""


def environment_overlay(file: Path | str, name: str) -> Path:
    """Return the overlay beside a config for an environment: `news.prod.yaml` for `news.yaml` and `prod`."""
    file = Path(file)
    overlay = file.with_name(f"{file.stem}.{name}{file.suffix}") if re.fullmatch(NAME, name) else None
    if overlay is None:
        message = (
            f"--env {name}: an environment has a name of letters, digits, `_` and `-`, as in --env prod for "
            f"{file.stem}.prod{file.suffix} beside the config; --with takes any file"
        )
        raise ConfigError(message)
    if file.is_file() and not overlay.is_file():
        known = _environments(file)
        there = f"there are {', '.join(known)}" if known else f"{file} has no overlay of that kind beside it"
        message = f"--env {name}: there is no {overlay}{suggestion(name, known, there)}"
        raise ConfigError(message)
    return overlay


def _environments(file: Path) -> list[str]:
    """Return the names of the environments that have an overlay beside this config."""
    begin = f"{file.stem}."
    names = [
        found.name.removeprefix(begin).removesuffix(file.suffix)
        for found in file.parent.iterdir()
        if found.name.startswith(begin) and found.name.endswith(file.suffix) and found.name != file.name
    ]
    return sorted(name for name in names if re.fullmatch(NAME, name))


def merge_overlays(document: Document, file: str, overlays: Sequence[Path | str]) -> None:
    """Merge overlays over the config in `file`, in their order; their problems become problems of the document."""
    given = {os.path.realpath(file): "it is the config itself; leave it out"}
    for overlay in overlays:
        shown, path = str(overlay), os.path.realpath(overlay)
        if path in given:
            document.problems.append(Problem((), given[path], FileLine(shown)))
            continue
        given[path] = "the overlay is given twice; leave one of the two out"
        changes = parse(config_text(Path(overlay)))
        if not changes.problems and not isinstance(changes.data, dict):
            empty = "the file is empty; an overlay has the keys to change"
            message = "an overlay is a mapping with the keys to change, not a list or a single value"
            changes.problems.append(Problem((), empty if changes.data is None else message))
        merge = _Merge(document, changes, shown)
        document.problems += [replace(problem, where=merge.place(problem.path)) for problem in changes.problems]
        if not changes.problems:
            document.data = merge.merged(document.data, changes.data, ())


@dataclass(frozen=True)
class _Merge:
    """One overlay and the document that it changes; the lines of its values go into the document."""

    document: Document
    changes: Document
    file: str

    def merged(self, below: Any, above: Any, path: KeyPath) -> Any:
        """Return the value at a key path: two mappings become one, any other value of the overlay replaces."""
        if not isinstance(below, dict) or not isinstance(above, dict) or _selects_another(below, above, path):
            self._move_lines(path)
            return above
        for key, value in above.items():
            here = (*path, key)
            if key not in below:
                self._move_lines(here)
                below[key] = value
            elif value is None and path in _ENTRIES:
                self.document.forget(here)
                del below[key]
            else:
                below[key] = self.merged(below[key], value, here)
        return below

    def place(self, path: KeyPath) -> FileLine:
        line = self.changes.where(path)
        return FileLine(self.file, line if isinstance(line, int) else None)

    def _move_lines(self, path: KeyPath) -> None:
        self.document.forget(path)
        for known in self.changes.lines:
            if known[: len(path)] == path:
                self.document.lines[known] = self.place(known)


def _selects_another(below: Mapping[str, Any], above: Mapping[str, Any], path: KeyPath) -> bool:
    """Return True if the overlay selects another plug-in here: the options of the plug-in before do not fit it."""
    if path and path[-1] in _SELECT_NOTHING:
        return False
    if path[-1:] == ("model",) and ("from" in above) != ("from" in below):
        return "from" in above or _selected(above) is not None  # a registered model has its own type and options
    selected = _selected(above)
    return selected is not None and selected != _selected(below)


def _selected(part: Mapping[str, Any]) -> Any:
    """Return the plug-in that a mapping selects; None if it selects none.

    >>> _selected({"type": "kafka"}), _selected({"steps": []}), _selected({"threshold": 0.2})
    ('kafka', 'steps', None)
    """
    named = next((part[key] for key in _SELECTORS if key in part), None)
    return "steps" if named is None and "steps" in part else named

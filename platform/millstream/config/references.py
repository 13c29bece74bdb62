"""References in a config: `${NAME}`, `${NAME:-default}` and `${file:PATH}` stand for values from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.config.document import Document, KeyPath, Problem
from millstream.config.files import value_of_file
from millstream.errors import ConfigError
from millstream.suggestions import suggestion

__all__ = ["REFERENCE", "referenced", "substitute"]

REFERENCE = r"\$\{(?:[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?|file:[^}]+)\}"
"""A reference, as a pattern for editors."""

_PARTS = re.compile(
    r"\$\$"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|\$\{file:(?P<file>[^}]+)\}"
    r"|(?P<broken>\$\{)"
)


def substitute(
    document: Document, environment: Mapping[str, str], folder: Path = Path(), *, read_only: bool = False
) -> None:
    """Replace references by values of the environment and of files, and `$$` by `$`.

    Relative paths of files start at `folder`. A variable that is not set and a file that is missing are problems; with
    `read_only` the reference stays, and the document lists it as unset.

    >>> from millstream.config.document import parse
    >>> document = parse("topic: ${TOPIC:-news}\\npassword: ${SECRET}")
    >>> substitute(document, {"SECRET": "s3cret"})
    >>> document.data, document.references
    ({'topic': 'news', 'password': 's3cret'}, {('password',): '${SECRET}'})
    """
    document.data = _Substitution(document, environment, folder, read_only).value(document.data, ())


def referenced(text: str) -> list[str]:
    """Return the variables and files of the references in a text, files as `file:PATH`.

    >>> referenced("${HOST}:${PORT:-9092}/${file:secrets/topic}")
    ['HOST', 'PORT', 'file:secrets/topic']
    """
    return [
        found["name"] or f"file:{found['file']}" for found in _PARTS.finditer(text) if found["name"] or found["file"]
    ]


@dataclass(frozen=True)
class _Substitution:
    document: Document
    environment: Mapping[str, str]
    folder: Path
    read_only: bool

    def value(self, data: Any, path: KeyPath) -> Any:
        if isinstance(data, dict):
            return {key: self.value(value, (*path, key)) for key, value in data.items()}
        if isinstance(data, list):
            return [self.value(value, (*path, index)) for index, value in enumerate(data)]
        if not isinstance(data, str) or "$" not in data:
            return data
        return _PARTS.sub(lambda found: self._replaced(found, data, path), data)

    def _replaced(self, found: re.Match[str], written: str, path: KeyPath) -> str:
        if found["broken"]:
            message = (
                "`${` has no closing brace or no valid name; "
                "write ${NAME}, ${NAME:-default} or ${file:PATH}, and $$ for a $"
            )
            self.document.problems.append(Problem(path, message))
            return ""
        if found["file"]:
            return self._of_file(found, written, path)
        return self._of_variable(found, written, path) if found["name"] else "$"

    def _of_variable(self, found: re.Match[str], written: str, path: KeyPath) -> str:
        name, default = found["name"], found["default"]
        if default is None and name not in self.environment:
            meant = suggestion(name, [known for known in self.environment if known.isupper()])
            message = f"the environment has no {name}; set it, or give a default: ${{{name}:-default}}{meant}"
            return self._missing(found, written, path, message)
        if default is None or self.environment.get(name):
            return self._found(name, self.environment[name], written, path)
        return str(default)

    def _of_file(self, found: re.Match[str], written: str, path: KeyPath) -> str:
        try:
            value = value_of_file(self.folder / found["file"])
        except ConfigError as error:
            return self._missing(found, written, path, f"{found[0]}: {error}")
        return self._found(f"file:{found['file']}", value, written, path)

    def _found(self, name: str, value: str, written: str, path: KeyPath) -> str:
        self.document.references[path] = written
        self.document.values[name] = value
        return value

    def _missing(self, found: re.Match[str], written: str, path: KeyPath, message: str) -> str:
        if self.read_only:
            self.document.references[path] = written
            self.document.unset.append(Problem(path, message))
            return found[0]
        self.document.problems.append(Problem(path, message))
        return ""

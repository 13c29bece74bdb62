"""Loads a YAML file and its overlays as a validated config, or reports all their problems together."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from millstream.config.absent_plugin import with_absent
from millstream.config.document import Document, FileLine, KeyPath, Place, Problem, Setting, apply_sets, parse
from millstream.config.files import config_text
from millstream.config.messages import problems_of
from millstream.config.models import Config
from millstream.config.overlays import merge_overlays
from millstream.config.plugins import NotAConfig
from millstream.config.references import substitute
from millstream.config.truth_values import truth_value_problems
from millstream.errors import ConfigError, ConfigProblem, Contradiction
from millstream.redaction import Secrets

__all__ = ["Loaded", "load_config", "read_back", "read_config", "read_document", "refusal"]


@dataclass(frozen=True)
class Loaded:
    """A validated config with its file; relative paths in the config start at `folder`."""

    config: Config
    file: str
    folder: Path
    document: Document

    def resolved(self) -> dict[str, Any]:
        """Return the config with its defaults, for `read_config`; values from outside stay references."""
        data: dict[str, Any] = _without_secrets(self.config.model_dump(mode="json"), self.document)
        return data

    def changed(self, sets: Sequence[Setting], environment: Mapping[str, str] | None = None) -> Loaded:
        """Return this config with other values, given as those of `--set`; the file is not read again."""
        return _validated(self.written(), self.file, self.folder, sets, environment)

    def written(self) -> Document:
        """Return the document as it was written, for `read_document`; values from outside are references again."""
        return Document(_without_secrets(self.document.data, self.document), dict(self.document.lines))

    @property
    def secrets(self) -> Secrets:
        """The values from outside, which no output shows."""
        return self.document.secrets

    def redact(self, text: str) -> str:
        """Return the text without secrets: references are in place of outside values, `***` of passwords in URLs."""
        return self.secrets.redact(text)

    def redacted(self, data: Any, path: KeyPath = ()) -> Any:
        """Return the part of the config at a key path without secrets; only its texts and whole references change."""
        if isinstance(data, Mapping):
            return {self.redact(key): self.redacted(value, (*path, key)) for key, value in data.items()}
        if isinstance(data, list):
            return [self.redacted(value, (*path, index)) for index, value in enumerate(data)]
        if isinstance(data, str):
            return self.redact(data)
        if path not in self.document.references:
            return data
        written = json.dumps(data)
        redacted = self.redact(written)
        return data if redacted == written else redacted

    def redacting(self) -> AbstractContextManager[None]:
        """Remove the secrets from the exceptions that pass."""
        return self.secrets.redacting()

    def unset(self, *path: str | int) -> list[Problem]:
        """Return the references below a key path that have no value; only `read_back` allows them."""
        return [problem for problem in self.document.unset if problem.path[: len(path)] == path]

    def need(self, *path: str | int) -> None:
        """Raise `ConfigError` if a reference below a key path has no value."""
        if problems := self.unset(*path):
            self.refuse(problems)

    def refuse(self, problems: Sequence[Problem]) -> NoReturn:
        """Raise the problems as one `ConfigError`, each with its line."""
        raise refusal(self.file, self.document, problems)


def load_config(
    file: Path | str,
    sets: Sequence[Setting] = (),
    environment: Mapping[str, str] | None = None,
    overlays: Sequence[Path | str] = (),
) -> Loaded:
    """Read and validate a config file; `ConfigError` lists every problem.

    `overlays` are files that are merged over the config in their order, and then `sets` are applied, the values of
    `--set`. Relative paths start at the folder of `file`, also those in an overlay.
    """
    file = Path(file)
    document = parse(config_text(file))
    return _validated(document, str(file), file.absolute().parent, sets, environment, overlays)


def read_config(
    data: Mapping[str, Any],
    folder: Path,
    file: str,
    environment: Mapping[str, str] | None = None,
    sets: Sequence[Setting] = (),
) -> Loaded:
    """Validate a config that is no file, such as one that `Loaded.resolved` returned; `sets` change `data`.

    Relative paths in it start at `folder`; `file` is its name in messages.
    """
    return _validated(Document(data=dict(data)), file, folder, sets, environment)


def read_document(document: Document, file: str, folder: Path, environment: Mapping[str, str] | None = None) -> Loaded:
    """Validate a document of `Loaded.written`, in this process or in another one."""
    return _validated(document, file, folder, (), environment)


def read_back(data: Mapping[str, Any], folder: Path, file: str, environment: Mapping[str, str] | None = None) -> Loaded:
    """Validate the config of an existing run, for commands that only read the run.

    Environment variables and files may be missing: the reference stays, and `Loaded.need` refuses a value that a
    command needs. A class that cannot be imported here is an `AbsentPlugin`, which refuses its use. A config that is no
    longer valid raises `Contradiction`.
    """
    return _validated(Document(data=dict(data)), file, folder, (), environment, read_only=True)


def _validated(
    document: Document,
    file: str,
    folder: Path,
    sets: Sequence[Setting],
    environment: Mapping[str, str] | None,
    overlays: Sequence[Path | str] = (),
    *,
    read_only: bool = False,
) -> Loaded:
    if not document.problems and not isinstance(document.data, dict):
        empty = document.data is None
        message = "the file is empty" if empty else "a config is a mapping, `name: ...`, not a list or a single value"
        document.problems.append(Problem((), f"{message}; it needs name, source and pipeline"))
    if document.problems and not isinstance(document.data, dict):
        raise refusal(file, document, document.problems)
    merge_overlays(document, file, overlays)
    apply_sets(document, sets)
    substitute(document, os.environ if environment is None else environment, folder, read_only=read_only)
    try:
        config = Config.model_validate(with_absent(document.data) if read_only else document.data)
    except NotAConfig as error:
        document.problems.append(Problem(next(_paths_of(document.data, error.value), ()), str(error)))
        raise refusal(file, document, document.problems) from None
    except ValidationError as error:  # it shows values, so it is no cause of the errors raised here
        if document.unset:
            raise refusal(file, document, document.unset) from None
        _add_problems(document, problems_of(error, Config, document))
        _add_problems(document, truth_value_problems(Config, document))
        refused = refusal(file, document, document.problems)
        if read_only:
            message = (
                f"{refused}\nthe run was made by another version of Millstream, or with plug-ins that are not "
                "installed: read it with the version and plug-ins that made it; a class of a notebook or a script is "
                "known only to a process that defines it"
            )
            raise Contradiction(message) from None
        raise refused from None
    _add_problems(document, truth_value_problems(Config, document))
    if document.problems:
        raise refusal(file, document, document.problems)
    return Loaded(config, file, folder, document)


def _paths_of(data: Any, value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the key paths of an object."""
    if data is value:
        yield path
    elif isinstance(data, Mapping | list):
        for key, inner in data.items() if isinstance(data, Mapping) else enumerate(data):
            yield from _paths_of(inner, value, (*path, key))


def _add_problems(document: Document, found: Iterable[Problem]) -> None:
    """Add problems, the first one of each value."""
    known = {problem.path for problem in document.problems}
    document.problems += [problem for problem in found if problem.path not in known]


def refusal(file: str, document: Document, problems: Iterable[Problem]) -> ConfigError:
    """Return the error that lists these problems of a file, each with its line."""
    found = []
    for problem in problems:
        place = problem.where if problem.where is not None else document.where(problem.path)
        message = document.secrets.redact(problem.message)
        placed = ConfigProblem(_position(file, place), ".".join(map(str, problem.path)), message)
        found.append((_order(place), placed))
    found.sort(key=lambda each: each[0])
    head = [f"{file}: {len(found)} problems"] if len(found) > 1 else []
    return ConfigError("\n".join([*head, *(str(each) for _, each in found)]), [each for _, each in found])


def _order(place: Place | None) -> tuple[str, int]:
    """Return the order of problems: those of `--set`, those of the config by line, then those of overlays."""
    if isinstance(place, FileLine):
        return place.file, place.line or 0
    return "", place if isinstance(place, int) else 0


def _position(file: str, place: Place | None) -> str:
    if isinstance(place, FileLine):
        return str(place)
    if isinstance(place, int):
        return f"{file}:{place}"
    return file if place is None else f"{file} ({place})"


def _without_secrets(data: Any, document: Document, path: KeyPath = ()) -> Any:
    """Return `data` as a config file may store it: references for values from outside, `$$` for any other `$`."""
    if isinstance(data, dict):
        return {key: _without_secrets(value, document, (*path, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_without_secrets(value, document, (*path, index)) for index, value in enumerate(data)]
    if path in document.references:
        return document.references[path]
    if not isinstance(data, str):
        return data
    as_written = document.at(path) == data  # otherwise a validator made it, perhaps from a value from outside
    return data.replace("$", "$$") if as_written else document.secrets.with_references(data.replace("$", "$$"))

"""Loads a YAML file as a validated config, or reports all its problems together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from millstream.config.absent_plugin import with_absent
from millstream.config.document import Document, KeyPath, Problem, apply_sets, parse, substitute
from millstream.config.messages import problems_of
from millstream.config.models import Config
from millstream.errors import ConfigError, ConfigProblem, Contradiction
from millstream.suggestions import suggestion

__all__ = ["Loaded", "load_config", "read_back", "read_config"]


@dataclass(frozen=True)
class Loaded:
    """A validated config with its file; relative paths in the config start at `folder`."""

    config: Config
    file: str
    folder: Path
    document: Document

    def resolved(self) -> dict[str, Any]:
        """Return the config with its defaults, for `read_config`; values of the environment stay `${NAME}`."""
        data: dict[str, Any] = _without_secrets(self.config.model_dump(mode="json"), self.document)
        return data

    def changed(self, sets: Sequence[str], environment: Mapping[str, str] | None = None) -> Loaded:
        """Return this config with other values, given as those of `--set`; the file is not read again."""
        document = Document(_without_secrets(self.document.data, self.document), dict(self.document.lines))
        return _validated(document, self.file, self.folder, sets, environment)

    def redact(self, text: str) -> str:
        """Return the text with `${NAME}` in place of values of the environment."""
        return self.document.redact(text)

    def unset(self, *path: str | int) -> list[Problem]:
        """Return the environment variables below a key path that are not set; only `read_back` allows them."""
        return [problem for problem in self.document.unset if problem.path[: len(path)] == path]

    def need(self, *path: str | int) -> None:
        """Raise `ConfigError` if an environment variable below a key path is not set."""
        if problems := self.unset(*path):
            self.refuse(problems)

    def refuse(self, problems: Sequence[Problem]) -> NoReturn:
        """Raise the problems as one `ConfigError`, each with its line."""
        raise _refusal(self.file, self.document, problems)


def load_config(file: Path | str, sets: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Loaded:
    """Read and validate a config file; `sets` are the values of `--set`. `ConfigError` lists every problem."""
    file = Path(file)
    text = _text_of(file)
    document = parse(text)
    return _validated(document, str(file), file.absolute().parent, sets, environment)


def read_config(
    data: Mapping[str, Any],
    folder: Path,
    file: str,
    environment: Mapping[str, str] | None = None,
    sets: Sequence[str] = (),
) -> Loaded:
    """Validate a config that is no file, such as one that `Loaded.resolved` returned; `sets` change `data`.

    Relative paths in it start at `folder`; `file` is its name in messages.
    """
    return _validated(Document(data=dict(data)), file, folder, sets, environment)


def read_back(data: Mapping[str, Any], folder: Path, file: str, environment: Mapping[str, str] | None = None) -> Loaded:
    """Validate the config of an existing run, for commands that only read the run.

    Environment variables may be missing: `${NAME}` stays, and `Loaded.need` refuses a value that a command needs. A
    config that is no longer valid raises `Contradiction`.
    A class that cannot be imported here is an `AbsentPlugin`, which refuses its use.
    """
    return _validated(Document(data=dict(data)), file, folder, (), environment, read_only=True)


def _validated(
    document: Document,
    file: str,
    folder: Path,
    sets: Sequence[str],
    environment: Mapping[str, str] | None,
    *,
    read_only: bool = False,
) -> Loaded:
    if not document.problems and not isinstance(document.data, dict):
        empty = document.data is None
        message = "the file is empty" if empty else "a config is a mapping, `name: ...`, not a list or a single value"
        document.problems.append(Problem((), f"{message}; it needs name, source and pipeline"))
    if document.problems and not isinstance(document.data, dict):
        raise _refusal(file, document, document.problems)
    apply_sets(document, sets)
    substitute(document, os.environ if environment is None else environment, read_only=read_only)
    try:
        config = Config.model_validate(with_absent(document.data) if read_only else document.data)
    except ValidationError as error:
        if document.unset:
            raise _refusal(file, document, document.unset) from error
        known = {problem.path for problem in document.problems}
        document.problems += [found for found in problems_of(error, Config, document) if found.path not in known]
        refusal = _refusal(file, document, document.problems)
        if read_only:
            message = (
                f"{refusal}\nthe run was made by another version of Millstream, or with plug-ins that are not "
                "installed: read it with the version and plug-ins that made it"
            )
            raise Contradiction(message) from error
        raise refusal from error
    if document.problems:
        raise _refusal(file, document, document.problems)
    return Loaded(config, file, folder, document)


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        neighbours = [found.name for found in file.parent.glob("*.y*ml")] if file.parent.is_dir() else []
        message = f"{file}: no such file{suggestion(file.name, neighbours, shown=file.with_name)}"
    except IsADirectoryError:
        message = f"{file}: a folder, not a config file"
    except UnicodeDecodeError as error:
        message = f"{file}: not UTF-8 at byte {error.start}; save it as UTF-8"
    except OSError as error:
        message = f"{file}: {error.strerror}"
    raise ConfigError(message)


def _refusal(file: str, document: Document, problems: Iterable[Problem]) -> ConfigError:
    found = []
    for problem in problems:
        line = document.where(problem.path)
        position = f":{line}" if isinstance(line, int) else "" if line is None else f" ({line})"
        message = document.redact(problem.message)
        placed = ConfigProblem(f"{file}{position}", ".".join(map(str, problem.path)), message)
        found.append((line if isinstance(line, int) else 0, placed))
    found.sort(key=lambda each: each[0])
    head = [f"{file}: {len(found)} problems"] if len(found) > 1 else []
    return ConfigError("\n".join([*head, *(str(each) for _, each in found)]), [each for _, each in found])


def _without_secrets(data: Any, document: Document, path: KeyPath = ()) -> Any:
    """Return `data` as a config file may store it: `${NAME}` for values of the environment, `$$` for any other `$`."""
    if isinstance(data, dict):
        return {key: _without_secrets(value, document, (*path, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_without_secrets(value, document, (*path, index)) for index, value in enumerate(data)]
    if path in document.references:
        return document.references[path]
    if not isinstance(data, str):
        return data
    as_written = document.at(path) == data  # otherwise a validator made it, perhaps from a value of the environment
    return data.replace("$", "$$") if as_written else document.redact(data.replace("$", "$$"))

"""The config of the Python API: from a file, from a dictionary, or from objects; validated, and unchangeable."""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from millstream import arguments
from millstream.api.argument_names import naming_arguments
from millstream.config.document import Document, Setting
from millstream.config.load import Loaded, load_config, read_config, read_document
from millstream.config.origins import Origin, origins
from millstream.config.pipeline import NamedStep
from millstream.config.sources import TimedSource
from millstream.errors import ConfigError
from millstream.guarantees.notebook_classes import unimportable_classes

__all__ = ["Config", "Overlays", "Source", "check_arguments", "config_of", "loaded_of", "sets_of"]

_NO_FILE = "config"
"""The name of a config that is no file, in messages."""


class Config:
    """A validated config. It is a copy: no later change of a file, a dictionary or an object changes it.

    The keywords are the keys of a config file. Each value is written as in a file, or is an object: a source, a sink,
    a step, a model or a pipeline. Relative paths start at the current folder.

    >>> from millstream_connectors.generator import GeneratorSource
    >>> from millstream_pipelines.text_topics import TextTopics
    >>> config = Config(
    ...     name="demo", source=GeneratorSource(records=500), pipeline=TextTopics(), engine={"type": "local"}
    ... )
    >>> config.resolved()["pipeline"]["model"]["type"]
    'naive_bayes'
    """

    __slots__ = ("_environment", "_loaded")
    _environment: Mapping[str, str] | None
    _loaded: Loaded

    def __init__(self, **values: Any) -> None:
        with naming_arguments():
            self._hold(_from_mapping(values, Path.cwd(), (), None), None)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        set: Mapping[str, Any] | None = None,
        overlays: Overlays = (),
        environment: Mapping[str, str] | None = None,
    ) -> Config:
        """Read a config file, with `overlays` merged over it in their order: one path, or a list of paths.

        `set` changes values by key path, after that; `environment` replaces the variables of the process.

        Relative paths in the config start at the folder of the file.
        """
        file, variables = arguments.path("path", path), arguments.environment("environment", environment)
        with naming_arguments():
            loaded = load_config(file, sets_of(set), variables, arguments.paths("overlays", overlays))
        return _made(loaded, variables)

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        *,
        set: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Config:
        """Make a config of the content of a config file; relative paths start at `folder`, or the current folder."""
        if not isinstance(values, Mapping):
            arguments.refuse("values", values, "a mapping, the content of a config file")
        start = Path.cwd() if folder is None else arguments.path("folder", folder).absolute()
        variables = arguments.environment("environment", environment)
        with naming_arguments():
            return _made(_from_mapping(values, start, sets_of(set), variables), variables)

    @property
    def name(self) -> str:
        """The name of the pipeline, and of its run directory below `runs`."""
        return self._loaded.config.name

    def resolved(self) -> dict[str, Any]:
        """Return the config with its defaults; values of the environment stay `${NAME}`."""
        return self._loaded.resolved()

    def origins(self) -> dict[str, Origin]:
        """Return the origin of every single value of `resolved`, by its key path, as in `engine.type`."""
        return {".".join(map(str, path)): origin for path, origin in origins(self._loaded).items()}

    def __copy__(self) -> Config:
        return self

    def __deepcopy__(self, memo: object) -> Config:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the config with references in place of outside values, which are read again with the pickle."""
        if names := unimportable_classes(self._loaded.config):
            message = (
                f"the config cannot be pickled: another process cannot import {', '.join(names)}, which a notebook, a "
                "script or a function defines; move it into a module"
            )
            raise ConfigError(message)
        return _unpickled, (self._loaded.written(), self._loaded.file, self._loaded.folder, self._environment)

    def __repr__(self) -> str:
        origin = "" if self._loaded.file == _NO_FILE else f" from {self._loaded.file}"
        return f"<Config {self.name}{origin}>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"a Config does not change, so {name!r} cannot be set; make another Config"
        raise AttributeError(message)

    def _hold(self, loaded: Loaded, environment: Mapping[str, str] | None) -> None:
        object.__setattr__(self, "_loaded", loaded)
        object.__setattr__(self, "_environment", None if environment is None else dict(environment))

    def _changed(self, changes: Sequence[Setting]) -> Loaded:
        return self._loaded.changed(changes, self._environment) if changes else self._loaded


Source = str | os.PathLike[str] | Mapping[str, Any] | Config
"""A config as a caller gives it: the path of a file, its content, or a `Config`."""

Overlays = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""The path of an overlay, or several."""


def _made(loaded: Loaded, environment: Mapping[str, str] | None) -> Config:
    config = Config.__new__(Config)
    config._hold(loaded, environment)
    return config


def config_of(loaded: Loaded) -> Config:
    """Return the config of the API for one that is loaded already."""
    return _made(loaded, None)


def _unpickled(document: Document, file: str, folder: Path, environment: Mapping[str, str] | None) -> Config:
    return _made(read_document(document, file, folder, environment), environment)


def loaded_of(source: object, changes: object = None, overlays: object = ()) -> Loaded:
    """Load a config that a caller gave, with overlays, and `changes` by key path; `ConfigError` lists every problem."""
    sets, files = check_arguments(source, changes, overlays)
    with naming_arguments():
        if isinstance(source, Config):
            return source._changed(sets)
        if isinstance(source, Mapping):
            return _from_mapping(source, Path.cwd(), sets, None)
        return load_config(arguments.path("config", source), sets, overlays=files)


def check_arguments(source: object, changes: object, overlays: object) -> tuple[list[Setting], list[Path]]:
    """Return the changes and the overlays for `loaded_of`; `ConfigError` if an argument is not allowed."""
    sets, files = sets_of(changes), arguments.paths("overlays", overlays)
    if not isinstance(source, str | os.PathLike | Config | Mapping):
        arguments.refuse("config", source, "the path of a file, a mapping or a Config")
    if isinstance(source, str):
        _refuse_yaml(source)
    if isinstance(source, str | os.PathLike):
        arguments.path("config", source)
    elif files:
        message = "overlays are merged over the file of a config; give them to Config.from_file, or the path of a file"
        raise ConfigError(message)
    return sets, files


def _refuse_yaml(text: str) -> None:
    """Refuse the content of a config file where its path belongs."""
    if not re.search(r"\n|:\s|^\s*\{", text):
        return
    with suppress(OSError, ValueError):
        if Path(text).exists():
            return
    message = (
        "config: the text is YAML, not the path of a file; write it to a file for Config.from_file(path), or parse it "
        "for Config.from_dict(yaml.safe_load(text))"
    )
    raise ConfigError(message)


def sets_of(changes: object) -> list[Setting]:
    """Return copies of changes by key path."""
    return [(key, _plain(key, value)) for key, value in arguments.settings("set", changes).items()]


def _plain(key: str, value: object) -> Any:
    """Return a copy of a value that a config file can have; `ConfigError` for any other one."""
    try:
        return json.loads(json.dumps(_copied(value), ensure_ascii=False, allow_nan=False, default=_single))
    except (TypeError, ValueError) as error:
        message = f"set: the value of {key!r} is no text, number, list or mapping: {error}"
        raise ConfigError(message) from error


def _single(value: object) -> int | float:
    """Return a number or a truth value of another class, such as one of NumPy."""
    if arguments.is_flag_of_numpy(value):
        return bool(value)
    if isinstance(value, Real):
        return operator.index(value) if isinstance(value, Integral) else float(value)
    raise TypeError(f"an object of the class {type(value).__name__}")


def _from_mapping(
    values: Mapping[str, Any], folder: Path, sets: Sequence[Setting], environment: Mapping[str, str] | None
) -> Loaded:
    loaded = read_config(_copied(values), folder, _NO_FILE, environment, sets)
    try:
        loaded.resolved()
    except PydanticSerializationError as error:
        message = f"an option of an object in the config cannot be written to a file: {error}"
        raise ConfigError(message) from error
    return loaded


def _copied(value: Any) -> Any:
    """Return a copy of a value; `ConfigError` if the value contains itself."""
    try:
        return _copy(value)
    except RecursionError:
        message = "a mapping or a list of the config contains itself, or is nested too deeply to be a config"
        raise ConfigError(message) from None


def _copy(value: Any) -> Any:
    """Return a copy of a value with all objects in it, and with paths as text."""
    if isinstance(value, BaseModel):
        return value.model_copy(deep=True)
    if isinstance(value, NamedStep | TimedSource):
        return replace(value, config=_copy(value.config))
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(inner) for inner in value]
    return str(value) if isinstance(value, PurePath) else value

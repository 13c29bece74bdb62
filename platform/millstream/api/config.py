"""The config of the Python API: from a file, from a dictionary, or from objects; validated, and unchangeable."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from millstream.config.document import Setting
from millstream.config.load import Loaded, load_config, read_config
from millstream.config.pipeline import NamedStep
from millstream.config.sources import TimedSource
from millstream.errors import ConfigError

__all__ = ["Config", "Source", "config_of", "loaded_of"]

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
        self._hold(_from_mapping(values, Path.cwd(), None, None), None)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        set: Mapping[str, Any] | None = None,
        overlays: Sequence[str | os.PathLike[str]] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Config:
        """Read a config file, with `overlays` merged over it in their order.

        `set` changes values by key path, after that; `environment` replaces the variables of the process.

        Relative paths in the config start at the folder of the file.
        """
        return _made(load_config(Path(path), _sets_of(set), environment, list(map(Path, overlays))), environment)

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
        start = Path.cwd() if folder is None else Path(folder).absolute()
        return _made(_from_mapping(values, start, set, environment), environment)

    @property
    def name(self) -> str:
        """The name of the pipeline, and of its run directory below `runs`."""
        return self._loaded.config.name

    def resolved(self) -> dict[str, Any]:
        """Return the config with its defaults; values of the environment stay `${NAME}`."""
        return self._loaded.resolved()

    def __repr__(self) -> str:
        origin = "" if self._loaded.file == _NO_FILE else f" from {self._loaded.file}"
        return f"<Config {self.name}{origin}>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"a Config does not change, so {name!r} cannot be set; make another Config"
        raise AttributeError(message)

    def _hold(self, loaded: Loaded, environment: Mapping[str, str] | None) -> None:
        object.__setattr__(self, "_loaded", loaded)
        object.__setattr__(self, "_environment", None if environment is None else dict(environment))

    def _changed(self, changes: Mapping[str, Any] | None) -> Loaded:
        return self._loaded.changed(_sets_of(changes), self._environment) if changes else self._loaded


Source = str | os.PathLike[str] | Mapping[str, Any] | Config
"""A config as a caller gives it: the path of a file, its content, or a `Config`."""


def _made(loaded: Loaded, environment: Mapping[str, str] | None) -> Config:
    config = Config.__new__(Config)
    config._hold(loaded, environment)
    return config


def config_of(loaded: Loaded) -> Config:
    """Return the config of the API for one that is loaded already."""
    return _made(loaded, None)


def loaded_of(
    source: object, changes: Mapping[str, Any] | None = None, overlays: Sequence[str | os.PathLike[str]] = ()
) -> Loaded:
    """Load a config that a caller gave, with overlays, and `changes` by key path; `ConfigError` lists every problem."""
    if isinstance(source, str | os.PathLike):
        return load_config(Path(source), _sets_of(changes), overlays=list(map(Path, overlays)))
    if overlays:
        message = "overlays are merged over the file of a config; give them to Config.from_file, or the path of a file"
        raise ConfigError(message)
    if isinstance(source, Config):
        return source._changed(changes)
    if isinstance(source, Mapping):
        return _from_mapping(source, Path.cwd(), changes, None)
    message = f"a config is the path of a file, a mapping or a Config, not {_kind(source)}"
    raise ConfigError(message)


def _sets_of(changes: Mapping[str, Any] | None) -> list[Setting]:
    """Return copies of changes by key path."""
    return [(key, _plain(key, value)) for key, value in (changes or {}).items()]


def _plain(key: str, value: object) -> Any:
    """Return a copy of a value that a config file can have; `ConfigError` for any other one."""
    try:
        return json.loads(json.dumps(_copied(value), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        message = f"set: the value of {key!r} is no text, number, list or mapping: {error}"
        raise ConfigError(message) from error


def _from_mapping(
    values: Mapping[str, Any], folder: Path, changes: Mapping[str, Any] | None, environment: Mapping[str, str] | None
) -> Loaded:
    loaded = read_config(_copied(values), folder, _NO_FILE, environment, _sets_of(changes))
    try:
        loaded.resolved()
    except PydanticSerializationError as error:
        message = f"an option of an object in the config cannot be written to a file: {error}"
        raise ConfigError(message) from error
    return loaded


def _copied(value: Any) -> Any:
    """Return a copy of a value with all objects in it, and with paths as text."""
    if isinstance(value, BaseModel):
        return value.model_copy(deep=True)
    if isinstance(value, NamedStep | TimedSource):
        return replace(value, config=_copied(value.config))
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(inner) for inner in value]
    return str(value) if isinstance(value, PurePath) else value


def _kind(value: object) -> str:
    return f"an object of the class {type(value).__name__}"

"""The place of a class that a run's config names and that cannot be imported, for commands that only read the run."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict, PrivateAttr

from millstream.config.document import KeyPath
from millstream.config.imported_names import IMPORTED_NAME, import_name
from millstream.errors import ConfigError

__all__ = ["AbsentPlugin", "with_absent"]


class AbsentPlugin(BaseModel):
    """A source, sink, step or model whose class cannot be imported here. Only the use of it raises the reason."""

    model_config = ConfigDict(extra="allow")

    bounded: ClassVar[bool] = True

    type: str
    _reason: str = PrivateAttr(default="")

    @property
    def step_name(self) -> str | None:
        """The name of a step that has one."""
        name = (self.model_extra or {}).get("name")
        return name if isinstance(name, str) else None

    @property
    def fields(self) -> NoReturn:
        raise ConfigError(self._reason)

    def open(self, *_: Any, **__: Any) -> NoReturn:
        raise ConfigError(self._reason)

    def build(self, records: Any) -> NoReturn:
        self.open()

    def read(self, *_: Any) -> NoReturn:
        self.open()

    def progress(self, *_: Any) -> NoReturn:
        self.open()

    def problems(self, *_: Any) -> NoReturn:
        self.open()

    def location(self, context: Any, output: str) -> str:
        return f"unknown: {self._reason}"

    @staticmethod
    def of(options: dict[str, Any], reason: str) -> AbsentPlugin:
        absent = AbsentPlugin.model_validate(options)
        absent._reason = f"{options['type']}: {reason}"
        return absent


def with_absent(data: Any, path: KeyPath = ()) -> Any:
    """Return the data of a config with an `AbsentPlugin` for each plug-in whose class cannot be imported.

    >>> with_absent({"source": {"type": "no_such_module:Source", "path": "x"}, "keep": "7d"})
    {'source': AbsentPlugin(type='no_such_module:Source', path='x'), 'keep': '7d'}
    """
    if isinstance(data, list):
        return [with_absent(item, (*path, index)) for index, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    name = data.get("type")
    if _is_plugin(path) and isinstance(name, str) and re.fullmatch(IMPORTED_NAME, name):
        try:
            import_name(name)
        except ConfigError as error:
            return AbsentPlugin.of(data, str(error))
    return {key: with_absent(value, (*path, key)) for key, value in data.items()}


def _is_plugin(path: KeyPath) -> bool:
    """True for the key path of a source, sink, step or model, or of an option of a pipeline, which may be one.

    >>> [_is_plugin(path) for path in (("sinks", "topics"), ("pipeline", "steps", 0, "model"), ("engine",))]
    [True, True, False]
    """
    if path[:1] == ("pipeline",):
        return len(path) == 2 or (
            path[1:2] == ("steps",) and (len(path) == 3 or (len(path) == 4 and path[3] == "model"))
        )
    return path == ("source",) or (len(path) == 2 and path[0] in ("sources", "sinks"))

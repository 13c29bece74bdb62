"""The place of a class that a run's config names and that cannot be imported, for commands that only read the run."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict, PrivateAttr

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

    def location(self, context: Any, output: str) -> str:
        return f"unknown: {self._reason}"

    @staticmethod
    def of(options: dict[str, Any], reason: str) -> AbsentPlugin:
        absent = AbsentPlugin.model_validate(options)
        absent._reason = f"{options['type']}: {reason}"
        return absent


def with_absent(data: Any) -> Any:
    """Return the data of a config with an `AbsentPlugin` for each class that cannot be imported.

    >>> with_absent({"source": {"type": "no_such_module:Source", "path": "x"}, "keep": "7d"})
    {'source': AbsentPlugin(type='no_such_module:Source', path='x'), 'keep': '7d'}
    """
    if isinstance(data, list):
        return [with_absent(item) for item in data]
    if not isinstance(data, dict):
        return data
    name = data.get("type")
    if isinstance(name, str) and re.fullmatch(IMPORTED_NAME, name):
        try:
            import_name(name)
        except ConfigError as error:
            return AbsentPlugin.of(data, str(error))
    return {key: with_absent(value) for key, value in data.items()}

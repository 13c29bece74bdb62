"""Defaults that a config may change in part: a mapping without `type` is merged over the default of its field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = ["PartialDefault"]


@dataclass(frozen=True, eq=False)
class PartialDefault:
    """The annotation of a field whose default is a mapping with a `type`.

    A mapping that has no `type` changes the default, key by key. A mapping with a `type` is complete: the options that
    it leaves out have the defaults of that type. So is one with `from`, which takes a model from a registry.

    >>> hourly = PartialDefault({"type": "tumbling", "size": "1h", "lateness": "10m"})
    >>> hourly.merged({"size": "2h"})
    {'type': 'tumbling', 'size': '2h', 'lateness': '10m'}
    >>> hourly.merged({"type": "tumbling", "size": "2h"})
    {'type': 'tumbling', 'size': '2h'}
    """

    default: Mapping[str, Any]

    def merged(self, value: Any) -> Any:
        """Return the value, merged over the default if it is a mapping with options only."""
        if not isinstance(value, Mapping) or {"type", "from"} & set(value):
            return value
        return {**self.default, **value}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.merged, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema of the field, without the duty to give a `type`."""
        described: dict[str, Any] = {**handler(schema), "required": []}
        if "oneOf" in described:
            described["anyOf"] = described.pop("oneOf")  # without `type`, the options may fit several types
        return described

"""The keys and the types that a config may have at a key path."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from millstream.config.document import KeyPath
from millstream.config.partial_defaults import PartialDefault

__all__ = ["known_keys", "known_types"]


def known_keys(model: type[BaseModel], data: Any, path: KeyPath) -> list[str]:
    """Return the keys allowed in the mapping at `path` of `data`, when `data` is read as `model`.

    >>> from millstream.config.models import Config
    >>> known_keys(Config, {"engine": {"epoch": {"max_wait": "1s"}}}, ("engine", "epoch"))
    ['max_records', 'max_wait']
    """
    models = [found for found in known_types(model, data, path) if _is_model(found)]
    return sorted({key for found in models for key in _fields(found)})


def known_types(model: type[BaseModel], data: Any, path: KeyPath) -> list[Any]:
    """Return the types that the value at `path` of `data` may have, when `data` is read as `model`.

    >>> from millstream.config.models import Config
    >>> known_types(Config, {}, ("engine", "workers"))
    [<class 'int'>]
    """
    readings: list[Any] = [model]
    for part in path:
        readings = [inner for reading in readings for inner in _inside(reading, data, part)]
        data = data[part] if _has(data, part) else None
    return [found for reading in readings for found in _plain(reading, data)]


def _has(data: Any, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(data, Sequence) and part < len(data)
    return isinstance(data, Mapping) and part in data


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields by their keys in a config; a key may be a reserved word of Python, so fields have aliases."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _is_model(reading: Any) -> bool:
    return isinstance(reading, type) and issubclass(reading, BaseModel)


def _plain(annotation: Any, data: Any) -> Iterator[Any]:
    """Yield the types in an annotation: models, and lists and mappings of annotations."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        for metadata in arguments[1:]:
            data = metadata.merged(data) if isinstance(metadata, PartialDefault) else data
        yield from _plain(arguments[0], data)
        for metadata in arguments[1:]:
            if hasattr(metadata, "chosen"):  # a field that holds plug-ins
                yield metadata.chosen(data)
    elif origin in (typing.Union, types.UnionType):
        for argument in arguments:
            yield from _plain(argument, data)
    else:
        yield annotation


def _inside(annotation: Any, data: Any, part: str | int) -> Iterator[Any]:
    for reading in _plain(annotation, data):
        arguments = typing.get_args(reading)
        if _is_model(reading):
            field = _fields(reading).get(str(part))
            if field is not None:
                yield field.annotation if not field.metadata else Annotated[(field.annotation, *field.metadata)]
        elif arguments:  # list[X], dict[str, X]
            yield arguments[-1]

"""The values true and false in a config where a number belongs: pydantic would read them as 1 and 0."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel

from millstream.config.document import Document, KeyPath, Problem
from millstream.config.keys import known_types

__all__ = ["truth_value_problems"]


def truth_value_problems(model: type[BaseModel], document: Document) -> list[Problem]:
    """Return a problem for each true or false whose key takes only numbers.

    >>> class Window(BaseModel):
    ...     size: int
    ...     strict: bool | int = False
    >>> data = {"size": True, "strict": True}
    >>> [(problem.path, problem.message) for problem in truth_value_problems(Window, Document(data))]
    [(('size',), 'true is not a whole number')]
    """
    found = []
    for path, value in _truth_values(document.data):
        types = known_types(model, document.data, path)
        if not {int, float} & set(types) or any(map(_takes_truth_value, types)):
            continue
        kind = "a number" if float in types else "a whole number"
        found.append(Problem(path, f"{document.references.get(path) or json.dumps(value)} is not {kind}"))
    return found


def _truth_values(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, bool]]:
    if isinstance(data, bool):
        yield path, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _truth_values(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _truth_values(value, (*path, index))


def _takes_truth_value(found: Any) -> bool:
    is_choice = typing.get_origin(found) is Literal and any(isinstance(each, bool) for each in typing.get_args(found))
    return found in (Any, bool, object) or is_choice

"""Messages about pydantic's errors in the words of a config file: the problem, the allowed values, the nearest name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from millstream.config.document import Document, KeyPath, Problem
from millstream.config.durations import DURATION, parse_duration
from millstream.config.keys import known_keys
from millstream.config.pipeline import NAME, RUN_NAME, StepList
from millstream.config.registered_model import VERSION
from millstream.suggestions import nearest, suggestion

__all__ = ["problems_of"]

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "string": "text; put it in quotes",
    "text": "text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "a mapping, `key: value`",
    "mapping": "a mapping, `key: value`",
    "model": "a mapping, `key: value`",
    "none": "null",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}


_WRONG_KINDS = ("type", "parsing", "parsing_size", "from_float", "attributes_type", "number", "required")
_PIPELINE_KEYS = tuple(StepList.model_fields)
_DAY = parse_duration("1d")
_YAML = {"False": "false", "True": "true", "None": "null"}
_PATTERNS = {
    NAME: "letters, digits, `_` and `-`, at most 64",
    RUN_NAME: "letters, digits, `.`, `_` and `-`, at most 100: it names a folder",
    VERSION: "write models:/NAME/NUMBER, with the number of a version, or models:/NAME@ALIAS",
}


def problems_of(error: ValidationError, model: type[BaseModel], document: Document) -> list[Problem]:
    """Return each error as a problem at its key path; several errors of one value become one problem.

    >>> class Window(BaseModel):
    ...     size: int
    ...     threshold: float = 0.1
    >>> data = {"size": "x", "treshold": 1}
    >>> try:
    ...     Window.model_validate(data, extra="forbid")
    ... except ValidationError as error:
    ...     for problem in problems_of(error, Window, Document(data)):
    ...         print(problem.path, problem.message)
    ('size',) "x" is not a whole number
    ('treshold',) unknown key; did you mean `threshold`?
    """
    merged: dict[KeyPath, list[str]] = {}
    located = [
        (_key_path(one["loc"], one["type"], model, document.data), one) for one in error.errors(include_url=False)
    ]
    unknown = [path for path, found in located if found["type"] == "extra_forbidden"]
    misspelt = {(*path[:-1], nearest(path[-1], known_keys(model, document.data, path[:-1]))) for path in unknown}
    if any(path[0] in _PIPELINE_KEYS for path in unknown if len(path) == 1):
        misspelt.add(("pipeline",))
    for path, found in located:
        if found["type"] == "missing" and path in misspelt:
            continue  # the key is there, but misspelt or elsewhere
        path = _blamed(path, found, document)
        message = document.secrets.redact(_message(found, path, model, document))
        if message not in merged.setdefault(path, []):
            merged[path].append(message)
    return [Problem(path, "; or ".join(messages)) for path, messages in merged.items()]


def _key_path(location: Sequence[str | int], kind: str, model: type[BaseModel], data: Any) -> KeyPath:
    """Return the location without the names of union choices, which pydantic puts between keys."""
    path: KeyPath = ()
    rest = data
    for index, part in enumerate(location):
        last = index == len(location) - 1
        if part in rest if isinstance(rest, Mapping) else isinstance(rest, list) and part in range(len(rest)):
            path = (*path, part)
            rest = rest[part]
        elif last and (kind in ("missing", "plugin_missing") or part in known_keys(model, data, path)):
            path = (*path, part)
    return path


def _blamed(path: KeyPath, found: ErrorDetails, document: Document) -> KeyPath:
    """The key path of a problem: of one with several keys of a mapping that of the first key that the message names."""
    value = document.at(path)
    if found["type"] == "value_error" and isinstance(value, Mapping):
        for key in re.findall(r"`(\w+)`", str(found["ctx"]["error"])):
            if key in value:
                return (*path, key)
    return path


def _message(found: ErrorDetails, path: KeyPath, model: type[BaseModel], document: Document) -> str:
    kind, context = found["type"], found.get("ctx", {})
    value = document.at(path)
    value = found["input"] if value is None else value
    shown = document.references.get(path) or _shown(value)
    if kind == "missing":
        return "required"
    if kind == "extra_forbidden":
        allowed = known_keys(model, document.data, path[:-1])
        if path[-1] in _PIPELINE_KEYS and "pipeline" in allowed:
            return f"unknown key here; write it below `pipeline:`, as `pipeline.{path[-1]}`"
        return "unknown key" + suggestion(path[-1], allowed, f"one of {', '.join(allowed)}")
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        limit = context[bound]
        if isinstance(value, str) and limit >= _DAY and re.match(DURATION, value):
            return f"{shown} is not allowed; {words} {limit // _DAY}d"
        whole = isinstance(limit, float) and limit.is_integer()
        return f"{shown} is not allowed; {words} {int(limit) if whole else limit}"
    if kind in ("literal_error", "enum"):
        names = [name.strip("'") for name in re.split(r", | or ", context["expected"])]
        return f"{shown} is not allowed; {_one_of([_YAML.get(name, name) for name in names], value)}"
    if kind == "union_tag_invalid":
        names = [name.strip("'") for name in context["expected_tags"].split(", ")]
        key = context["discriminator"].strip("'")
        return f"`{key}` {_shown(context['tag'])} is not allowed; {_one_of(names, context['tag'])}"
    if kind == "union_tag_not_found":
        return f"`{context['discriminator'].strip(chr(39))}` is required"
    if kind == "plugin_unknown":
        return f"{shown}: {found['msg']}{suggestion(value, context['allowed'])}"
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        return f"{shown} is not allowed; {_PATTERNS.get(pattern, f'it has to match {pattern}')}"
    if kind in ("too_short", "string_too_short"):
        return f"{shown} is too short; at least {context['min_length']}" if value else "it must not be empty"
    if kind == "value_error" and isinstance(found["input"], Mapping):
        return str(context["error"])
    if kind == "value_error":
        return f"{shown} is not allowed; {context['error']}"
    family, _, rest = kind.partition("_")
    if family in _KINDS and rest in _WRONG_KINDS:
        family = "text" if family == "string" and isinstance(value, Mapping | list) else family
        return f"{shown} is not {_KINDS[family]}"
    return str(found["msg"])


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _one_of(names: Iterable[str], value: Any) -> str:
    names = list(names)
    return f"one of {', '.join(names)}{suggestion(value, names)}"

"""The JSON Schema of configs, with which editors complete and check YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from millstream.config.durations import DURATION, format_duration
from millstream.config.models import Config
from millstream.config.references import REFERENCE

__all__ = ["config_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ENVIRONMENT = {"$ref": "#/$defs/environment"}
_LITERAL_KEYS = ("type", "use")
"""Keys that select a plug-in; they allow no `${NAME}`, so that an editor sees the plug-in."""
_NOT_SHOWN = ("gt", "ge", "lt", "le", "may_change", "keeps_state")
_VERBATIM = ("default", "enum", "const", "examples", "required", "discriminator")


def config_schema() -> dict[str, Any]:
    """Return the schema of a config, with the options of every installed plug-in.

    >>> config_schema()["$defs"]["EpochSize"]["properties"]["max_records"]["default"]
    5000
    """
    schema = Config.model_json_schema(mode="validation")
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    shared: dict[str, str] = {}
    for name in list(definitions):
        shared.setdefault(json.dumps(definitions[name], sort_keys=True), name)
    for name in list(definitions):
        definitions[name] = _share(definitions[name], definitions, shared, inside=True)
    schema = _share(schema, definitions, shared)
    schema.pop("$defs", None)
    tidy = {"$schema": _DIALECT, **_clean(schema, None)}
    tidy["title"] = "A Millstream pipeline"
    tidy["anyOf"] = [{"required": ["source"]}, {"required": ["sources"]}]
    environment = {"type": "string", "pattern": REFERENCE}
    environment["description"] = "A value of the environment, ${NAME} or ${NAME:-default}, or of a file: ${file:PATH}."
    tidy["$defs"] = {name: _clean(definitions[name], None) for name in sorted(definitions)} | {
        "environment": environment
    }
    return tidy


def _share(part: Any, definitions: dict[str, Any], shared: dict[str, str], inside: bool = False) -> Any:
    """Return the schema with each model that occurs several times in `$defs` once."""
    if isinstance(part, list):
        return [_share(item, definitions, shared) for item in part]
    if not isinstance(part, dict):
        return part
    part = {key: value if key == "$defs" else _share(value, definitions, shared) for key, value in part.items()}
    if inside or part.get("type") != "object" or "properties" not in part or "title" not in part or "$defs" in part:
        return part
    if not any(key in part["properties"] and "const" in part["properties"][key] for key in _LITERAL_KEYS):
        return part
    text = json.dumps(part, sort_keys=True)
    if text not in shared:
        name, number = part["title"], 2
        while name in definitions:
            name, number = f"{part['title']}{number}", number + 1
        definitions[name] = part
        shared[text] = name
    return {"$ref": f"#/$defs/{shared[text]}"}


def _clean(part: Any, key: str | None) -> Any:
    """Return the schema for editors: no Python examples, no titles made from names, `${NAME}` allowed as any value."""
    if isinstance(part, list):
        return [_clean(item, key) for item in part]
    if not isinstance(part, dict):
        return part
    part = {name: content for name, content in part.items() if name not in _NOT_SHOWN}
    if isinstance(part.get("description"), str):
        part["description"] = " ".join(part["description"].split("\n\n")[0].split())
    if isinstance(part.get("default"), int) and _is_duration(part):
        part["default"] = format_duration(part["default"])
    if "default" in part and part["default"] is None:
        del part["default"]
    if "discriminator" in part:
        part.setdefault("required", [part["discriminator"]["propertyName"]])
    elif "properties" in part:
        part.setdefault("additionalProperties", False)
    if "properties" not in part or "discriminator" in part:
        part.pop("title", None)
    tidy: dict[str, Any] = {}
    for name, content in part.items():
        if name == "properties":
            tidy[name] = {inner: _clean(value, inner) for inner, value in content.items()}
        elif name in _VERBATIM:
            tidy[name] = content
        else:
            tidy[name] = _clean(content, key if name == "anyOf" else None)
    if "anyOf" in tidy:
        tidy["anyOf"] = _flat(tidy["anyOf"])
    return _allow_references(tidy) if key not in _LITERAL_KEYS and _refuses_references(tidy) else tidy


def _is_duration(part: Mapping[str, Any]) -> bool:
    return part.get("pattern") == DURATION or any(_is_duration(choice) for choice in part.get("anyOf", ()))


def _flat(choices: list[Any]) -> list[Any]:
    """Return nested choices as one list, each choice once."""
    flat: list[Any] = []
    for choice in choices:
        inner = choice["anyOf"] if isinstance(choice, Mapping) and set(choice) == {"anyOf"} else [choice]
        flat += [one for one in inner if one not in flat]
    return flat


def _refuses_references(part: Mapping[str, Any]) -> bool:
    """Return True for a single value whose limits would refuse `${NAME}`."""
    if part.get("type") == "string":
        return any(limit in part for limit in ("pattern", "enum", "const"))
    return part.get("type") in ("integer", "number", "boolean") or ("enum" in part and "properties" not in part)


def _allow_references(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows a value of the environment."""
    outside: dict[str, Any] = {name: part[name] for name in ("description", "default") if name in part}
    inside = {name: content for name, content in part.items() if name not in outside}
    return {**outside, "anyOf": [inside, _ENVIRONMENT]}

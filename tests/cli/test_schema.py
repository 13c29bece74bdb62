"""`millstream schema`: the JSON Schema with which editors complete and check configs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command_result import Millstream

CONFIGS = Path(__file__).parents[2] / "configs"
SHIPPED = sorted(path.name for path in CONFIGS.glob("*.yaml") if "." not in path.stem)


@pytest.fixture
def schema(millstream: Millstream) -> dict[str, Any]:
    ran = millstream("schema")
    assert ran.code == 0
    printed: dict[str, Any] = json.loads(ran.out)
    return printed


def complaints(part: dict[str, Any], value: Any, whole: dict[str, Any], path: str = "") -> list[str]:
    """Return the complaints of an editor; it checks the keywords of JSON Schema that the schema uses."""
    found: list[str] = []
    if "$ref" in part:
        found += complaints(whole["$defs"][part["$ref"].removeprefix("#/$defs/")], value, whole, path)
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    kind = part.get("type")
    if kind == "null" and value is not None:
        found.append(f"{path}: not null")
    if kind in kinds and (not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [*found, f"{path}: not {kind}"]
    for choices, least, most in (("anyOf", 1, len(part.get("anyOf", ()))), ("oneOf", 1, 1)):
        if choices in part:
            right = [choice for choice in part[choices] if not complaints(choice, value, whole, path)]
            if not least <= len(right) <= most:
                found.append(f"{path}: {len(right)} of {choices}")
    if "const" in part and value != part["const"]:
        found.append(f"{path}: not {part['const']}")
    if "enum" in part and value not in part["enum"]:
        found.append(f"{path}: not in {part['enum']}")
    if "pattern" in part and isinstance(value, str) and not re.search(part["pattern"], value):
        found.append(f"{path}: not like {part['pattern']}")
    if isinstance(value, int | float) and not part.get("minimum", value) <= value <= part.get("maximum", value):
        found.append(f"{path}: out of bounds")
    if isinstance(value, int | float) and value <= part.get("exclusiveMinimum", value - 1):
        found.append(f"{path}: out of bounds")
    if isinstance(value, dict):
        found += [f"{path}: no {name}" for name in part.get("required", ()) if name not in value]
        for name, inner in value.items():
            if name in part.get("properties", {}):
                found += complaints(part["properties"][name], inner, whole, f"{path}.{name}")
            elif "patternProperties" in part:
                for pattern, choice in part["patternProperties"].items():
                    if re.search(pattern, name):
                        found += complaints(choice, inner, whole, f"{path}.{name}")
            elif isinstance(part.get("additionalProperties"), dict):
                found += complaints(part["additionalProperties"], inner, whole, f"{path}.{name}")
            elif part.get("additionalProperties") is False:
                found.append(f"{path}: unknown {name}")
    if isinstance(value, list) and len(value) < part.get("minItems", 0):
        found.append(f"{path}: too few")
    if isinstance(value, list) and "items" in part:
        for index, inner in enumerate(value):
            found += complaints(part["items"], inner, whole, f"{path}.{index}")
    return found


def test_the_shipped_schema_is_the_printed_one(millstream: Millstream) -> None:
    ran = millstream("schema")
    assert ran.out == (CONFIGS / "millstream.schema.json").read_text(), (
        "run `millstream schema` and write its output there"
    )


def test_a_valid_config_is_valid_for_an_editor(schema: dict[str, Any], folder: Path) -> None:
    config = yaml.safe_load((folder / "news.yaml").read_text())
    assert complaints(schema, config, schema) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_configs_are_valid_for_an_editor(schema: dict[str, Any], name: str) -> None:
    assert complaints(schema, yaml.safe_load((CONFIGS / name).read_text()), schema) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "a/b"),
        ("nam", "a"),
        ("source", {"path": "news.jsonl"}),
        ("source", {"type": "fils", "path": "news.jsonl"}),
        ("pipeline", {"use": "text_topics", "model": {"type": "complement_nb", "alfa": 1}}),
        ("pipeline", {"use": "text_topics", "model": {"alfa": 1}}),
        ("pipeline", {"steps": []}),
        ("pipeline", {"steps": [{"type": "hashed_text", "dimensions": "many"}]}),
        ("guarantee", {"delivery": "twice"}),
        ("engine", {"epoch": {"max_records": 0}}),
        ("keep", "7 moons"),
        ("mlflow", True),
        ("source", {"type": "my_parts.Csv", "path": "texts.csv"}),
    ],
)
def test_an_editor_rejects_a_wrong_value(schema: dict[str, Any], folder: Path, key: str, value: Any) -> None:
    config = yaml.safe_load((folder / "news.yaml").read_text()) | {key: value}
    assert complaints(schema, config, schema)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("keep", None),
        ("keep", "${KEEP:-7d}"),
        ("keep", "${file:/run/secrets/keep}"),
        ("pipeline", {"use": "text_topics", "model": {"alpha": 0.5}, "popularity": {"threshold": 0.2}}),
        ("pipeline", {"use": "text_topics", "popularity": {"window": {"size": "2h"}}}),
        ("mlflow", False),
        ("mlflow", {"experiment": "news"}),
        ("guarantee", {"checkpoint_every": "${CHECKPOINT_EVERY}", "delivery": "${DELIVERY:-exactly_once}"}),
        ("pipeline", {"steps": [{"type": "hashed_text", "name": "words"}]}),
        ("engine", {"epoch": {"max_wait": "1s"}, "placement": {"features": "driver"}}),
        ("source", {"type": "my_parts:Csv", "path": 3, "idle": "1m"}),
        ("sinks", {"predictions": {"type": "my_parts.sinks:Sqlite", "path": "rows"}}),
        ("pipeline", {"steps": [{"type": "my_parts:Shorten", "name": "short", "length": 3}]}),
    ],
)
def test_an_editor_accepts_a_right_value(schema: dict[str, Any], folder: Path, key: str, value: Any) -> None:
    config = yaml.safe_load((folder / "news.yaml").read_text()) | {key: value}
    assert complaints(schema, config, schema) == []


def test_the_schema_has_the_models_of_other_packages(millstream: Millstream, lengths: None) -> None:
    printed = json.loads(millstream("schema").out)
    types = printed["$defs"]["TextTopics"]["properties"]["model"]["properties"]["type"]["anyOf"][0]["enum"]
    assert "lengths" in types
    assert printed["$defs"]["Lengths"]["properties"]["type"]["const"] == "lengths"

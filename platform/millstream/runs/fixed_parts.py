"""The parts of a config that may not change while a run directory is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from millstream.config.load import Loaded

__all__ = ["PARTIAL_UNTIL", "fixed_options", "fixed_parts", "fixed_steps"]

PARTIAL_UNTIL = "partial until"
"""The name of the time up to which windows are partial; a run without it has no such part."""


def fixed_parts(loaded: Loaded) -> dict[str, Any]:
    """The parts of a config that may not change while a run directory is resumed."""
    resolved = loaded.resolved()
    config = loaded.config
    several = resolved.get("sources")
    sources = several or {source.name: resolved["source"] for source in config.logs}
    fixed = {
        source.name: fixed_options(source.config, fixed_options(source.times, sources[source.name]))
        for source in config.logs
    }
    return {
        "pipeline name": config.name,
        "source": fixed if several else next(iter(fixed.values())),
        "steps": fixed_steps(loaded),
        "delivery": str(config.guarantee.delivery),
        "recovery": config.guarantee.recovery,
        "shards": config.guarantee.shards,
        **({} if config.partial_until is None else {PARTIAL_UNTIL: resolved["partial_until"]}),
    }


def fixed_steps(loaded: Loaded) -> list[dict[str, Any]]:
    """The steps with their names and the streams that they read, without secrets and without shadows."""
    return [
        {
            "name": step.name,
            **({"from": step.written_reads} if step.reads else {}),
            **loaded.redacted(fixed_options(step.config, step.config.model_dump(mode="json")), step.path),
        }
        for step in loaded.config.steps
        if step.beside is None
    ]


def fixed_options(config: BaseModel, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a source or step that determine results; options marked `may_change` do not."""
    free = {
        field.alias or name
        for name, field in type(config).model_fields.items()
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("may_change")
    }
    return {name: value for name, value in options.items() if name not in free}

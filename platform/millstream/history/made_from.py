"""The origin of a history: the parts of a config, the code and the libraries on which its results depend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.config.load import Loaded
from millstream.runs.directory import RunDirectory
from millstream.runs.fixed_parts import fixed_options, fixed_steps
from millstream.runs.user_code import user_code
from millstream.runs.versions import versions
from millstream.steps.nodes import Node

__all__ = ["made_from", "same_steps", "step_configs"]


def made_from(loaded: Loaded, steps: Sequence[Node], cuts: str, **others: Any) -> dict[str, Any]:
    """The facts that a folder keeps: with other ones, its files would be others. `cuts` names the replayed run."""
    resolved = loaded.resolved()
    written = resolved.get("sources") or {"source": resolved["source"]}
    return {
        "sources": {
            source.name: fixed_options(source.config, fixed_options(source.times, written[source.name]))
            for source in loaded.config.logs
        },
        "steps": list(step_configs(loaded, steps)),
        "shards": loaded.config.guarantee.shards,
        "cuts": cuts,
        **others,
        "code": dict(user_code(loaded.config)),
        "versions": dict(versions(loaded.config)),
    }


def step_configs(loaded: Loaded, steps: Sequence[Node]) -> tuple[Mapping[str, Any], ...]:
    """The configs of steps, each with its name and the streams that it reads, without secrets."""
    return tuple(
        {
            "name": node.name,
            "from": list(node.reads),
            **loaded.redacted(fixed_options(node.config, node.config.model_dump(mode="json")), node.path),
        }
        for node in steps
    )


def same_steps(loaded: Loaded, run: RunDirectory) -> bool:
    """True if a run has the steps of this config, so that their digests can be compared."""
    found: bool = run.fixed["steps"] == fixed_steps(loaded)
    return found

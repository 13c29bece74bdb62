"""What the conformance suite's keyed pipeline remembers of each author."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["follow"]


def follow(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
    """Adds to a text what its author wrote before, so that a model shows what was remembered; forgets now and then."""
    seen = state or {"texts": 0, "last": ""}
    changes = {"text": f"{record['text']} after {seen['last']}", "before": str(seen["texts"])}
    if seen["texts"] == 12:
        return changes, None
    return changes, {"texts": seen["texts"] + 1, "last": record["text"].partition(" ")[0]}

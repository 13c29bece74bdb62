"""`ms.validate`: all problems of a config that can be found without a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.api.config import Source, loaded_of
from millstream.errors import ConfigError, ConfigProblem
from millstream.guarantees.validation import checked_graph

__all__ = ["validate"]


def validate(
    config: Source, *, set: Mapping[str, Any] | None = None, overlays: Sequence[str | os.PathLike[str]] = ()
) -> list[ConfigProblem]:
    """Return every problem of a config, none if it is valid. No record is read, no broker is asked.

    >>> validate({"name": "demo", "source": {"type": "generator"}, "pipeline": {"use": "text_topic"}})[0].key
    'pipeline.use'
    """
    try:
        checked_graph(loaded_of(config, set, overlays))
    except ConfigError as error:
        return list(error.problems)
    return []

"""`ms.validate`: all problems of a config that can be found without a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.api.argument_names import naming_arguments
from millstream.api.config import Overlays, Source, check_arguments, loaded_of
from millstream.errors import ConfigError, ConfigProblem
from millstream.guarantees.validation import checked_graph
from millstream.history.search.candidates import candidates_of

__all__ = ["validate"]


def validate(config: Source, *, set: Mapping[str, Any] | None = None, overlays: Overlays = ()) -> list[ConfigProblem]:
    """Return every problem of a config, none if it is valid. No record is read, no broker is asked.

    An argument of a wrong kind is no problem of the config: it raises `ConfigError`.

    >>> validate({"name": "demo", "source": {"type": "generator"}, "pipeline": {"use": "text_topic"}})[0].key
    'pipeline.use'
    """
    check_arguments(config, set, overlays)
    try:
        with naming_arguments():
            loaded = loaded_of(config, set, overlays)
            checked_graph(loaded)
            if loaded.config.search is not None:
                candidates_of(loaded)
    except ConfigError as error:
        return list(error.problems)
    return []

"""The versions of the libraries that a run uses, for its checkpoints and its summary."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from functools import cache

from millstream.config.models import Config
from millstream.extras import EXTRAS, parts_extras

__all__ = ["versions"]

_LIBRARIES = ("millstream", "numba", "numpy", "pyarrow")


def versions(config: Config) -> Mapping[str, str]:
    """The versions of Python and of the libraries on which the bits of this config's results depend."""
    extras = [extra for step in config.steps for extra, _ in parts_extras(step.config)]
    extras += ["spark"] if config.engine.type == "spark" else []
    used = (name for extra in dict.fromkeys(extras) for name in EXTRAS[extra].results)
    return {"python": platform.python_version(), **{name: _version(name) for name in (*_LIBRARIES, *used)}}


@cache
def _version(package: str) -> str:
    return importlib.metadata.version(package)

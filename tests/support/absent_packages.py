"""Processes in which some installed packages cannot be found, as if they were not installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["environment_without"]

_HIDE = """
import sys

class Hiding:
    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {names!r} else self._finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self._finder, name)

sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


def environment_without(modules: Iterable[str], folder: Path) -> Mapping[str, str]:
    """The environment of processes that do not find these modules, neither do their workers; `folder` is for a file."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_HIDE.format(names=sorted(modules)))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}

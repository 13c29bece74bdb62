"""Imports of compiled functions that wait for the start of a run.

Their import loads numba, which takes half a second; a command that only checks a config does without it.
"""

from __future__ import annotations

import importlib

__all__ = ["import_at_start", "import_noted"]

_NOTED: dict[str, None] = {}


def import_at_start(module: str) -> None:
    """Note a module with compiled functions that a step uses; called when the step is built."""
    _NOTED[module] = None


def import_noted() -> None:
    """Import the noted modules: before a run writes anything, and before its processes are forked.

    A `ConfigError` says that numba cannot be used.
    """
    for module in ("millstream.compiled.row_hashes", *_NOTED):
        importlib.import_module(module)

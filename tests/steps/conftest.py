"""Fixtures of the tests of steps."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
from support.record_functions import Define


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Define:
    """Put a function into the module `rules`, and return the name under which a config finds it."""
    module = types.ModuleType("rules")
    monkeypatch.setitem(sys.modules, "rules", module)

    def put(function: Callable[[Any], Any]) -> str:
        module.__dict__["chosen"] = function
        return "rules:chosen"

    return put

"""The engines on which a hand-over is tested."""

from __future__ import annotations

import pytest

__all__ = ["ENGINES"]

ENGINES = [
    pytest.param({"type": "local"}, id="one process"),
    pytest.param({"type": "local", "workers": 2}, id="workers"),
    pytest.param({"type": "spark"}, id="spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")]),
]

"""Soaks end what they have started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.commands import end_started


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    yield
    end_started()

"""Runs without syncs: these tests end processes at most, and the death of a process loses nothing that is written."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda file: None)

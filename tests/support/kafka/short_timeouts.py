"""Short timeouts for connections that are open already, for tests of a broker that stays down."""

from __future__ import annotations

from typing import Any

import pytest

from millstream_connectors.kafka.client.retries import RetryTimer

__all__ = ["shorten_timeouts"]


def shorten_timeouts(monkeypatch: pytest.MonkeyPatch, seconds: float = 1.0) -> None:
    """Let all retries give up after so many seconds from now on, whatever timeout their connection has."""
    failed = RetryTimer.failed

    def impatient(timer: RetryTimer, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(timer, "timeout", seconds)
        failed(timer, *arguments, **options)

    monkeypatch.setattr(RetryTimer, "failed", impatient)

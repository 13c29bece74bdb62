"""How long a server that is away is waited for."""

from __future__ import annotations

import pytest

from millstream.errors import MillstreamError
from millstream_connectors.kafka.waiting import Patience


def test_who_is_stopped_meanwhile_waits_no_longer() -> None:
    stopped, now = [False], [0.0]
    patience = Patience("Kafka at HOST:1", 120, stopped=lambda: stopped[0], clock=lambda: now[0])
    patience.failed("ends", "connection refused", since=0.0)
    now[0] = 60.0
    patience.failed("ends", "connection refused", since=0.0)
    stopped[0] = True
    with pytest.raises(MillstreamError, match=r"^stopped while waiting for Kafka at HOST:1: connection refused$"):
        patience.failed("ends", "connection refused", since=0.0)

"""The time limit of retries, and the messages about a server that is unavailable."""

from __future__ import annotations

import logging

import pytest

from millstream_connectors.kafka.client.errors import RetryStopped, RetryTimeout
from millstream_connectors.kafka.client.retries import RetryTimer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level(logging.WARNING)
    return Clock()


def test_a_failure_is_logged_when_it_begins_every_ten_seconds_and_when_it_ends(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    timer = RetryTimer("Kafka", 60, clock=clock)
    for tenth in range(400):
        clock.now = 100 + tenth / 10
        timer.failed("ends", "refused", since=clock.now - 0.1)
        timer.failed("topics", "refused", since=clock.now - 0.1)
    timer.succeeded("ends")
    assert "again" not in caplog.messages[-1]
    timer.succeeded("topics")
    assert caplog.messages == [
        "waiting for Kafka, up to 60 s: refused",
        "still waiting for Kafka, for 11 s so far: refused",
        "still waiting for Kafka, for 21 s so far: refused",
        "still waiting for Kafka, for 31 s so far: refused",
        "Kafka answers again, after 40 s",
    ]


def test_a_short_failure_is_not_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    timer = RetryTimer("Kafka", 60, clock=clock)
    timer.failed("ends", "moved", since=clock.now)
    clock.now = 100.9
    timer.failed("ends", "moved", since=clock.now)
    timer.succeeded("ends")
    clock.now = 200.0
    timer.failed("ends", "moved", since=clock.now)
    assert caplog.messages == []


def test_retries_end_at_the_timeout(clock: Clock) -> None:
    timer = RetryTimer("Kafka", 60, clock=clock)
    timer.failed("ends", "refused", since=clock.now)
    clock.now = 159.0
    timer.failed("topics", "refused", since=clock.now)
    clock.now = 160.0
    with pytest.raises(RetryTimeout, match=r"^gave up waiting for Kafka after 60 s: refused$") as raised:
        timer.failed("ends", "refused", since=clock.now, unreachable=True)
    assert raised.value.unreachable


def test_a_stop_ends_retries_that_last_longer_than_two_seconds(clock: Clock) -> None:
    stopped: list[bool] = []
    timer = RetryTimer("Kafka at HOST:1", 120, stopped=lambda: bool(stopped), clock=clock)
    timer.failed("ends", "connection refused", since=clock.now)
    clock.now = 101.9
    stopped.append(True)
    timer.check_stop("ends", "connection refused")
    clock.now = 102.0
    timer.check_stop("topics", "connection refused")
    with pytest.raises(RetryStopped, match=r"^stopped while waiting for Kafka at HOST:1: connection refused$"):
        timer.check_stop("ends", "connection refused")

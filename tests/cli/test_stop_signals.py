"""Signals that stop a run, at any moment."""

from __future__ import annotations

import signal
from typing import NoReturn

from support.conditions import HANG_SECONDS

from millstream.cli.stop_signals import StopSignals


def fail(*_: object) -> NoReturn:
    raise TimeoutError


def test_a_signal_handler_that_interrupts_a_wait_for_the_event_does_not_block() -> None:
    said: list[str] = []
    signals = StopSignals(said.append, lambda: "for nothing", lambda seconds: None)
    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANG_SECONDS)
    try:
        with signals.install(), signals.event._cond:  # type: ignore[attr-defined]  # as `wait` holds it
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert signals.event.is_set()
    assert said == ["stopping after the epoch in progress"]

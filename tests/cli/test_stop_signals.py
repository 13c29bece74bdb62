"""How a run is asked to end, at whatever moment."""

from __future__ import annotations

import signal
from typing import NoReturn

from millstream.cli.stop_signals import Stopping


def too_late(*_: object) -> NoReturn:
    raise TimeoutError


def test_a_signal_that_comes_in_the_midst_of_a_wait_for_it_does_not_wait_for_itself() -> None:
    said: list[str] = []
    stopping = Stopping(said.append, lambda: "for nothing", lambda seconds: None)
    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(10)
    try:
        with stopping.installed(), stopping.event._cond:  # type: ignore[attr-defined]  # as `wait` has it
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert stopping.event.is_set()
    assert said == ["stopping after the epoch in hand"]

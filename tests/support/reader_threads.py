"""A thread that reads objects while another thread changes them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["checked_in_a_thread"]


@contextmanager
def checked_in_a_thread(wrong: Callable[..., str | None]) -> Iterator[Callable[..., None]]:
    """Yield a function that queues arguments; a thread calls `wrong` with them, and a returned message is a failure.

    The threads switch as often as Python allows.
    """
    queued: list[tuple[Any, ...]] = []
    found: list[str] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set() or queued:
            if queued and (message := wrong(*queued.pop())) is not None:
                found.append(message)

    reader = threading.Thread(target=read)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader.start()
    try:
        yield lambda *arguments: queued.append(arguments)
    finally:
        stop.set()
        reader.join()
        sys.setswitchinterval(usual)
    assert not found

"""A thread that reads what another one goes on writing to."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["checked_in_a_thread"]


@contextmanager
def checked_in_a_thread(wrong: Callable[..., str | None]) -> Iterator[Callable[..., None]]:
    """Calls `wrong` with all arguments that are given, in a thread, and fails if it says that something is.

    The threads take turns as often as Python lets them.
    """
    asked: list[tuple[Any, ...]] = []
    found: list[str] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set() or asked:
            if asked and (said := wrong(*asked.pop())) is not None:
                found.append(said)

    reader = threading.Thread(target=read)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader.start()
    try:
        yield lambda *arguments: asked.append(arguments)
    finally:
        stop.set()
        reader.join()
        sys.setswitchinterval(usual)
    assert not found

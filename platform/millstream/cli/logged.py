"""What the parts of a run tell by Python's logging while it goes on, such as that they wait for a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["shown"]

_LOGGERS = ("millstream", "millstream_connectors", "millstream_models", "millstream_pipelines")


class _Teller(logging.Handler):
    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        self._warn(record.getMessage())


@contextmanager
def shown(warn: Callable[[str], None]) -> Iterator[None]:
    """Tell `warn` what our own loggers are told, from any thread."""
    teller = _Teller(warn)
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(teller)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(teller)

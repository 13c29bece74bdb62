"""Shows the warnings that a run sends to Python's logging, such as that it waits for a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from millstream.config.plugins import registered

__all__ = ["show_warnings"]


class _WarningHandler(logging.Handler):
    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        self._warn(record.getMessage())


@contextmanager
def show_warnings(warn: Callable[[str], None]) -> Iterator[None]:
    """Pass the warnings of our loggers and of plug-ins' loggers to `warn`, from any thread."""
    plug_ins = [point for names in registered().values() for points in names.values() for point in points]
    loggers = [
        logging.getLogger(name) for name in {"millstream", *(point.module.partition(".")[0] for point in plug_ins)}
    ]
    handler = _WarningHandler(warn)
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)

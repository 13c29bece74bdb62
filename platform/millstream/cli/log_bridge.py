"""What the parts of a run tell by Python's logging while it goes on, such as that they wait for a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from millstream.config.plugins import registered

__all__ = ["shown"]


class _Teller(logging.Handler):
    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        self._warn(record.getMessage())


@contextmanager
def shown(warn: Callable[[str], None]) -> Iterator[None]:
    """Tell `warn` what our loggers and those of plug-ins are told, from any thread."""
    plug_ins = [point for names in registered().values() for points in names.values() for point in points]
    loggers = [
        logging.getLogger(name) for name in {"millstream", *(point.module.partition(".")[0] for point in plug_ins)}
    ]
    teller = _Teller(warn)
    for logger in loggers:
        logger.addHandler(teller)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(teller)

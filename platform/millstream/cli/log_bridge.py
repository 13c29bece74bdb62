"""Shows the messages that a run sends to Python's logging, such as that it waits for a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from millstream.cli.log_lines import Level
from millstream.config.plugins import registered

__all__ = ["show_logging"]

Log = Callable[[Level, str], None]


class _ShowingHandler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log(_level(record.levelno), record.getMessage())


@contextmanager
def show_logging(log: Log, *, verbose: bool = False) -> Iterator[None]:
    """Pass the warnings of our loggers and of plug-ins' loggers to `log`, from any thread; `verbose` passes everything.

    The loggers of other packages stay as they are.
    """
    plug_ins = [point for names in registered().values() for points in names.values() for point in points]
    loggers = [
        logging.getLogger(name) for name in {"millstream", *(point.module.partition(".")[0] for point in plug_ins)}
    ]
    before = [logger.level for logger in loggers]
    handler = _ShowingHandler(log)
    handler.setLevel(logging.DEBUG if verbose else logging.WARNING)
    for logger in loggers:
        logger.addHandler(handler)
        if verbose:
            logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


def _level(number: int) -> Level:
    if number >= logging.ERROR:
        return Level.ERROR
    if number >= logging.WARNING:
        return Level.WARNING
    return Level.INFO if number >= logging.INFO else Level.DEBUG

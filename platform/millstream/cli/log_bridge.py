"""Shows the messages that a command gets through Python's logging, such as that a run waits for a server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from millstream.cli.log_lines import Level
from millstream.thread_errors import log_thread_error

__all__ = ["show_logging", "verbose_logging"]

Log = Callable[[Level, str], None]

_NEWS = ("millstream.runs.shadow",)
"""Loggers whose messages at the level INFO are shown: a model of the run changes, and nobody has typed a command."""


class _ShowingHandler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log(_level(record.levelno), self.format(record))


@contextmanager
def show_logging(log: Log) -> Iterator[None]:
    """Pass to `log`, from any thread, the messages that Python would print: those of loggers without a handler.

    These are warnings, unless the level of a logger is another one; the news of the models; warnings of the module
    `warnings`; and the errors that end threads.
    """
    handler = _ShowingHandler(log)
    handler.addFilter(_is_unhandled)
    thread_hook = threading.excepthook
    before = {logger: logger.level for logger in map(logging.getLogger, _NEWS)}
    for logger in before:
        logger.setLevel(logging.INFO)
    logging.root.addHandler(handler)
    logging.captureWarnings(True)
    threading.excepthook = log_thread_error
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)
        threading.excepthook = thread_hook
        logging.captureWarnings(False)
        logging.root.removeHandler(handler)


@contextmanager
def verbose_logging() -> Iterator[None]:
    """Let our loggers and those of plug-ins pass all messages; the loggers of other packages stay as they are."""
    before = {logger: logger.level for logger in map(logging.getLogger, _our_packages())}
    for logger in before:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def _is_unhandled(record: logging.LogRecord) -> bool:
    """False for a message of a library that has handlers, also if its handler only keeps the library silent.

    Our loggers and those of plug-ins are never silent.
    """
    handlers, logger = [], logging.getLogger(record.name)
    while logger.parent is not None:
        handlers += logger.handlers
        logger = logger.parent
    if not handlers or record.name == "py.warnings":
        return True
    silent = all(isinstance(handler, logging.NullHandler) for handler in handlers)
    return silent and record.name.partition(".")[0] in _our_packages()


def _our_packages() -> set[str]:
    from millstream.config.plugins import registered  # not at the top: `millstream --help` does not need it

    plug_ins = [point for names in registered().values() for points in names.values() for point in points]
    return {"millstream", *(point.module.partition(".")[0] for point in plug_ins)}


def _level(number: int) -> Level:
    if number >= logging.ERROR:
        return Level.ERROR
    if number >= logging.WARNING:
        return Level.WARNING
    return Level.INFO if number >= logging.INFO else Level.DEBUG

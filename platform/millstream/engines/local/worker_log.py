"""The log messages of worker processes: the process of the run logs them, by its own levels and handlers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from millstream.engines.local.channel import Channel, Closed
from millstream.thread_errors import log_thread_error

__all__ = ["LogMessage", "log_levels", "log_message", "send_log_messages"]


@dataclass(frozen=True)
class LogMessage:
    """To the coordinator: a message that a worker logged, with the traceback of its exception, if there is one."""

    logger: str
    level: int
    text: str


class _SendingHandler(logging.Handler):
    def __init__(self, coordinator: Channel) -> None:
        super().__init__()
        self._coordinator = coordinator

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Closed):  # this process ends soon
            self._coordinator.send(LogMessage(record.name, record.levelno, self.format(record)))


def log_levels() -> Mapping[str, int]:
    """Return the levels that are set in this process, by logger; that of the root has an empty name."""
    loggers = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return {"": logging.root.level, **{each.name: each.level for each in loggers if each.level}}


def send_log_messages(coordinator: Channel, levels: Mapping[str, int]) -> None:
    """Send what this process logs, also its warnings and the errors that end threads, and print nothing of it."""
    logging.root.handlers[:] = [_SendingHandler(coordinator)]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)
    threading.excepthook = log_thread_error


def log_message(message: LogMessage) -> None:
    """Log a message of a worker."""
    logging.getLogger(message.logger).log(message.level, "%s", message.text)

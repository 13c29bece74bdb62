"""The log messages of Spark's Python processes, whose standard error is Spark's log file: lines without secrets."""

from __future__ import annotations

import logging
import sys
import threading

from millstream.plain_text import one_line
from millstream.redaction import Secrets
from millstream.thread_errors import log_thread_error

__all__ = ["print_log_messages"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TIME = "%y/%m/%d %H:%M:%S"


class _PlainLines(logging.Formatter):
    """Formats a message as Spark does, in one line."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__(_FORMAT, _TIME)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return one_line(self._secrets.redact(super().format(record)))


def print_log_messages(secrets: Secrets) -> None:
    """Print what this process logs on standard error, also its warnings and the errors that end threads."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PlainLines(secrets))
    logging.root.handlers[:] = [handler]
    logging.captureWarnings(True)
    threading.excepthook = log_thread_error

"""Settings for MLflow while a run records in it: few retries and no log lines, without a change for the program."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["THREAD", "drop_own_messages", "quiet_environment"]

THREAD = "millstream-mlflow"
"""The name of the thread that records a run."""

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
_lock = threading.Lock()
_set: list[str] = []
_users = 0


@contextmanager
def quiet_environment() -> Iterator[None]:
    """Set the variables of MLflow that are not set, and remove them after the last of several runs."""
    global _users  # the environment belongs to the whole process
    with _lock:
        if _users == 0:
            _set[:] = [name for name in _SETTINGS if name not in os.environ]
            os.environ.update({name: _SETTINGS[name] for name in _set})
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                for name in _set:
                    os.environ.pop(name, None)


class _OwnMessages(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.threadName != THREAD or record.levelno >= logging.ERROR


_FILTER = _OwnMessages()


def drop_own_messages() -> None:
    """Drop the messages of `THREAD` below errors: MLflow and its migrations log many lines."""
    for name in ("mlflow", "alembic"):
        for handler in logging.getLogger(name).handlers:  # these, unlike the logger, see messages of its children too
            handler.addFilter(_FILTER)

"""Keeps the messages of this client's connections out of the loggers of kafka-python.

kafka-python logs every attempt while a broker is unavailable, and logs its options, passwords included. The client logs
its retries itself. Other users of kafka-python in this process keep their messages: only those of the event loops of
this client are dropped.
"""

from __future__ import annotations

import logging
import threading

__all__ = ["CLIENT_ID", "drop_own_messages"]

CLIENT_ID = "millstream"
_THREAD = f"kafka-io-{CLIENT_ID}"
"""The name that kafka-python gives to the thread of an event loop with this client id."""


class _OwnMessages(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return threading.current_thread().name != _THREAD


_FILTER = _OwnMessages()


def drop_own_messages() -> None:
    """Drop the messages of this client's threads in all loggers of kafka-python that exist by now."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] == "kafka" and isinstance(logger, logging.Logger):
            logger.addFilter(_FILTER)

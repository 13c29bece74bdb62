"""Errors that end threads, as log messages."""

from __future__ import annotations

import logging
import threading

__all__ = ["log_thread_error"]

_LOGGER = logging.getLogger(__name__)


def log_thread_error(args: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread; for `threading.excepthook`, which prints it otherwise."""
    if args.exc_type is not SystemExit:
        name = args.thread.name if args.thread is not None else "that has ended"
        error = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
        _LOGGER.error("an error ended the thread %s", name, exc_info=error)

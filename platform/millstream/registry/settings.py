"""Settings for MLflow while a run records in it: few retries and no log lines, without a change for the program."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from millstream.config.models import Mlflow

__all__ = ["THREAD", "drop_own_messages", "import_quietly", "quiet_environment", "quietly", "tracking_uri"]

THREAD = "millstream-mlflow"
"""The name of the thread that records a run."""

_Result = TypeVar("_Result")
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
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


_THEIRS = ("mlflow", "alembic")


class _OwnMessages(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        theirs = record.threadName == THREAD and record.name.partition(".")[0] in _THEIRS
        return not theirs or record.levelno >= logging.ERROR


_FILTER = _OwnMessages()


def drop_own_messages() -> None:
    """Drop the messages of `THREAD` below errors: MLflow and its migrations log many lines."""
    for name in _THEIRS:
        for handler in logging.getLogger(name).handlers:  # these, unlike the logger, see messages of its children too
            handler.addFilter(_FILTER)


def import_quietly() -> None:
    """Import MLflow's models without its warnings about itself, and drop its messages below errors in this thread."""
    with warnings.catch_warnings(action="ignore"):
        importlib.import_module("mlflow.pyfunc")
    drop_own_messages()


def quietly(work: Callable[[], _Result]) -> _Result:
    """Return the result of `work`, which calls MLflow, without MLflow's messages below errors."""
    result: Future[_Result] = Future()

    def call() -> None:
        try:
            import_quietly()
            result.set_result(work())
        except BaseException as error:  # the caller raises it
            result.set_exception(error)

    with quiet_environment():
        thread = threading.Thread(target=call, name=THREAD, daemon=True)
        thread.start()
        thread.join()
    return result.result()


def tracking_uri(config: Mlflow | None, environment: Mapping[str, str]) -> str:
    """The address of the store in which MLflow records runs and versions of models.

    >>> tracking_uri(Mlflow(experiment="news"), {"MLFLOW_TRACKING_URI": "http://localhost:5000"})
    'http://localhost:5000'
    """
    here = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    return (config and config.tracking_uri) or environment.get("MLFLOW_TRACKING_URI") or here

"""Versions of a running pipeline's model: a background thread registers the newest checkpoint by wall clock.

This module is imported only if the config has `mlflow` with `model`. If the registry fails, the run continues; the
thread says so, and tries again after the same time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from textwrap import shorten

from millstream.config.models import RunMlflow
from millstream.registry.client import Registry
from millstream.registry.settings import THREAD, import_quietly, quiet_environment, tracking_uri
from millstream.runs.export import register_model, tags_of
from millstream.runs.summary import Summary
from millstream.runs.watch.observer import Observer, Watched
from millstream.state.checkpoints import Checkpoint

__all__ = ["VersionObserver"]

_TIMEOUT_SECONDS = 60.0
_LONGEST_WARNING = 200
_MICROS = 1_000_000


class VersionObserver(Observer):
    """Registers the newest checkpoint as the model `name`, each time that `every` has passed and at a clean end.

    The time counts from the newest version that this run directory has, so a restart does not delay the next one.
    """

    def __init__(
        self,
        watched: Watched,
        config: RunMlflow,
        name: str,
        *,
        warn: Callable[[str], None],
        said: Callable[[str], None],
    ) -> None:
        self._watched, self._name, self._every = watched, name, config.every / _MICROS
        self._warn, self._said = warn, said
        self._uri = tracking_uri(config, os.environ)
        self._written = watched.epoch_log.totals.checkpoint >= 0
        """True if a checkpoint was written that no version has."""
        self._ending = threading.Event()
        self._ended_cleanly = False
        self._settings = ExitStack()
        self._settings.enter_context(quiet_environment())
        self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
        self._thread.start()

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        self._written = True

    def finished(self, summary: Summary) -> None:
        self._ended_cleanly = True

    def close(self) -> None:
        self._ending.set()
        self._thread.join(_TIMEOUT_SECONDS)
        self._settings.close()
        if self._thread.is_alive():
            self._warn(
                f"MLflow did not register the last model within {_TIMEOUT_SECONDS:.0f} s; `millstream export` does"
            )

    def _work(self) -> None:
        wait = self._every
        try:
            newest = self._registry().newest_of(self._name, tags_of(self._watched.directory))
            if newest is not None:
                wait = max(0.0, newest + self._every - time.time())
        except Exception as error:  # any error of the registry: the run must not fail
            self._failed(error)
        while not self._ending.wait(wait):
            self._register()
            wait = self._every
        if self._ended_cleanly:
            self._register()

    def _registry(self) -> Registry:
        import_quietly()
        return Registry(self._uri)

    def _register(self) -> None:
        """Register the newest checkpoint, unless it is registered."""
        if not self._written:
            return
        self._written = False
        try:
            made = register_model(self._registry(), self._watched.directory, self._watched.loaded, self._name)
        except Exception as error:  # any error of the registry: the run must not fail
            self._written = True
            self._failed(error)
        else:
            self._said(f"registered the model as {made.uri}, trained up to {made.records:,} records")

    def _failed(self, error: Exception) -> None:
        reason = self._watched.loaded.redact((str(error).strip().splitlines() or [type(error).__name__])[0])
        message = shorten(f"MLflow: {reason}", _LONGEST_WARNING, placeholder=" ...")
        self._warn(f"{message}; the run continues, and its model is registered later")

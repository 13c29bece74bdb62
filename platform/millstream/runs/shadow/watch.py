"""The watch over the shadows of a run: asks the registry in the background, and brings events into the epochs.

The run never waits for the registry. While the registry is down, the stream goes on; this is said once, and everything
that needs the registry is tried again.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from textwrap import shorten

from millstream.config.load import Loaded
from millstream.config.registered_model import RegisteredModel
from millstream.extras import require
from millstream.log.epochs import EpochLog, Event, Totals
from millstream.registry.client import Registry
from millstream.registry.settings import THREAD, import_quietly, quiet_environment, tracking_uri
from millstream.runs.directory import RunDirectory
from millstream.runs.shadow.notes import ShadowNotes
from millstream.runs.shadow.rule import Rule
from millstream.runs.shadow.step import FETCHED, ShadowedRun, ShadowedStep, StepVersions
from millstream.runs.watch.observer import Observer
from millstream.steps.graph import Graph
from millstream.steps.processor import EpochResult

__all__ = ["ShadowWatch", "shadowed_steps"]

_LOGGER = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""The time between two looks at the registry."""
_BUSY_SECONDS, _QUIET_SECONDS = 0.02, 0.2
"""The time between two looks at a version that catches up, and while there is none."""
_CLOSE_SECONDS = 60.0
_LONGEST_WARNING = 300


def shadowed_steps(loaded: Loaded) -> Sequence[ShadowedStep]:
    """The steps of a config that have a shadow; the config still names the models that it takes from a registry."""
    found: list[ShadowedStep] = []
    for step in loaded.config.steps:
        shadow = getattr(step.config, "shadow", None)
        if shadow is not None:
            model = step.config.model
            rule = None if shadow.promote is None else Rule(shadow.promote.better, shadow.promote.over)
            own = model.uri if isinstance(model, RegisteredModel) else None
            found.append(ShadowedStep(step.name, shadow.uri, own, rule))
    if found:
        require("mlflow", "a shadow, which is a model from a registry")
    return found


class ShadowWatch(Observer):
    """The shadows of one start of a run: an inbox of the cutter, and an observer of the lifecycle."""

    def __init__(
        self, steps: Sequence[ShadowedStep], loaded: Loaded, graph: Graph, directory: RunDirectory, epoch_log: EpochLog
    ) -> None:
        run = ShadowedRun(
            loaded, graph, directory, epoch_log, ShadowNotes(directory.shadow), _LOGGER.info, _LOGGER.warning
        )
        shutil.rmtree(directory.cache(FETCHED))  # a start that was killed leaves them
        self._loaded = loaded
        self._steps = [StepVersions(step, run) for step in steps]
        self._down: str | None = None
        self._ending = threading.Event()
        self._settings = ExitStack()
        self._settings.enter_context(quiet_environment())
        self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
        self._thread.start()

    def take(self, totals: Totals) -> Sequence[Event]:
        """The events of all steps for the next epoch."""
        return [event for step in self._steps for event in step.take(totals)]

    def finished_epoch(self, result: EpochResult) -> None:
        for step in self._steps:
            step.finished(result.epoch.number)

    def close(self) -> None:
        self._ending.set()
        self._thread.join(_CLOSE_SECONDS)
        for step in self._steps:
            step.close()
        self._settings.close()

    def _work(self) -> None:
        look_at = 0.0
        wait = 0.0
        while not self._ending.wait(wait):
            if time.monotonic() >= look_at:
                self._look()
                look_at = time.monotonic() + _LOOK_SECONDS
            for step in self._steps:
                step.work()
            wait = _BUSY_SECONDS if any(step.is_busy for step in self._steps) else _QUIET_SECONDS

    def _look(self) -> None:
        try:
            import_quietly()
            registry = Registry(tracking_uri(self._loaded.config.mlflow or None, os.environ))
            for step in self._steps:
                step.look(registry)
        except Exception as error:  # any error of the registry: the run must not fail
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if self._down is None:
                message = shorten(f"the registry: {self._loaded.redact(reason)}", _LONGEST_WARNING, placeholder=" ...")
                _LOGGER.warning("%s; the run goes on, and asks again", message)
            self._down = reason
        else:
            if self._down is not None:
                _LOGGER.info("the registry answers again")
            self._down = None

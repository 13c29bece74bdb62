"""A run in MLflow: its config, its accuracy and speed by windows, its summary.

This module is imported only if the config has `mlflow`.

A background thread copies the content of the run directory to MLflow, so MLflow never delays an epoch. If MLflow fails,
the run continues without it and prints one warning. A run directory has one MLflow run, which later starts continue.

Without a `tracking_uri` and without MLFLOW_TRACKING_URI, MLflow stores runs in `mlflow.db` in the current folder.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from millstream.config.models import Mlflow as MlflowConfig
from millstream.log.journal.durability import write_whole
from millstream.registry.experiments import open_experiment
from millstream.registry.flat_values import flat_values
from millstream.registry.settings import THREAD, drop_own_messages, quiet_environment, tracking_uri
from millstream.registry.source_run import log_params
from millstream.runs.summary import Summary
from millstream.runs.watch.metrics import Window, read_windows
from millstream.runs.watch.mlflow_provenance import (
    code_tags,
    config_params,
    read_partitions,
    run_tags,
    source_datasets,
)
from millstream.runs.watch.observer import Observer, Watched

__all__ = ["MlflowObserver"]

_GATHER_SECONDS = 1.0
_TIMEOUT_SECONDS = 30.0
_LONGEST_WARNING = 200
_MOST_METRICS = 1000
_METRICS = ("accuracy", "window_accuracy", "baselines", "window_baselines", "records_per_second", "epoch")
_SUMMARISED = ("records", "processed", "epochs", "accuracy", "baselines", "seconds", "delivered")


class MlflowObserver(Observer):
    """Copies a run to MLflow. `window` takes every window of the metrics; `warn` is called if MLflow fails."""

    def __init__(self, watched: Watched, config: MlflowConfig, *, warn: Callable[[str], None]) -> None:
        self._watched, self._config, self._warn = watched, config, warn
        self._uri = tracking_uri(config, os.environ)
        self._began = _millis()
        self._queue: queue.SimpleQueue[Window | Summary | _End] = queue.SimpleQueue()
        self._ending = threading.Event()
        for window in read_windows(watched.directory.metrics):
            self._queue.put(window)
        self._settings = ExitStack()
        self._settings.enter_context(quiet_environment())
        self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
        self._thread.start()

    def window(self, window: Window) -> None:
        """Record a window; windows come in order, and one that MLflow already has is ignored."""
        self._queue.put(window)

    def finished(self, summary: Summary) -> None:
        self._queue.put(summary)

    def close(self) -> None:
        self._queue.put(_End(_millis()))
        self._ending.set()
        self._thread.join(_TIMEOUT_SECONDS)
        self._settings.close()
        if self._thread.is_alive():
            self._warn(
                f"MLflow did not record everything within {_TIMEOUT_SECONDS:.0f} s; "
                f"{self._watched.directory.metrics} has all windows"
            )

    def _work(self) -> None:
        try:
            mirror = _Mirror(self._watched, self._config, self._uri, self._began, self._warn)
            while mirror.record(self._next_items()):
                pass
        except Exception as error:  # any error of the store of MLflow: the run must not fail
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            message = f"MLflow: {self._watched.loaded.redact(reason)}"
            self._warn(f"{shorten(message, _LONGEST_WARNING, placeholder=' ...')}; the run continues without MLflow")

    def _next_items(self) -> list[Window | Summary | _End]:
        """Wait for an item, and a little longer, so that several items are recorded with few calls."""
        items = [self._queue.get()]
        self._ending.wait(_GATHER_SECONDS)
        while not self._queue.empty():
            items.append(self._queue.get())
        return items


@dataclass(frozen=True)
class _End:
    """The end of a start, in milliseconds since 1970."""

    at: int


class _Mirror:
    """The MLflow run of a run directory."""

    def __init__(
        self, watched: Watched, config: MlflowConfig, uri: str, began: int, warn: Callable[[str], None]
    ) -> None:
        from mlflow import MlflowClient

        drop_own_messages()
        self._client = MlflowClient(tracking_uri=uri)
        self._directory, self._loaded, self._began, self._warn = watched.directory, watched.loaded, began, warn
        self._epoch_log = watched.epoch_log
        self._run = self._open(open_experiment(self._client, config.experiment))
        self._ended = "FAILED"
        self._versions: Mapping[str, str] = {}
        self._last = self._newest_step("epoch")  # every window has an epoch
        self._summarised = self._newest_step("records")  # every summary has the records

    def _newest_step(self, metric: str) -> int:
        return max((found.step for found in self._client.get_metric_history(self._run, metric)), default=-1)

    def record(self, items: Sequence[Window | Summary | _End]) -> bool:
        """Record the items; False if they end with the end of the start, which ends the run in MLflow."""
        self._log_windows([item for item in items if isinstance(item, Window) and item.records > self._last])
        self._log_versions()
        for item in items:
            if isinstance(item, Summary):
                self._log_summary(item)
        if not isinstance(items[-1], _End):
            return True
        if self._ended == "FAILED":
            self._set_tags(self._run, {"millstream.ended": "failed"})
        self._client.set_terminated(self._run, self._ended, items[-1].at)
        return False

    def _open(self, experiment: str) -> str:
        """The id of this directory's MLflow run, which continues; of a new one, if there is none."""
        run = self._known(experiment)
        if run is None:
            name = self._directory.path.absolute().name
            made = self._client.create_run(experiment, start_time=self._began, run_name=name)
            run, known = made.info.run_id, {}
            write_whole(self._directory.mlflow, json.dumps({"run": run}))
        else:
            known = self._client.get_run(run).data.params
            self._client.update_run(run, status="RUNNING")
        self._log_params(run, known)
        self._set_tags(run, {**code_tags(self._loaded), **run_tags(self._loaded, self._directory.path)})
        return run

    def _set_tags(self, run: str, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        self._client.log_batch(run, tags=[RunTag(name, self._loaded.redact(value)) for name, value in tags.items()])

    def _known(self, experiment: str) -> str | None:
        from mlflow.exceptions import MlflowException

        if not self._directory.mlflow.exists():
            return None
        run = str(json.loads(self._directory.mlflow.read_text())["run"])
        try:
            info = self._client.get_run(run).info
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            why = "does not exist"
        else:
            if info.lifecycle_stage == "active" and info.experiment_id == experiment:
                return run
            why = "was deleted" if info.lifecycle_stage != "active" else "is in another experiment"
        self._warn(f"MLflow: the run {run} of {self._directory.path} {why}; this start records a new MLflow run")
        return None

    def _log_params(self, run: str, known: Mapping[str, str]) -> None:
        """Log the config. Parameters cannot change in MLflow, so later changes are only in the artefact."""
        params = {name: value for name, value in config_params(self._loaded).items() if name not in known}
        log_params(self._client, run, params)
        self._client.log_text(run, self._loaded.redact(self._directory.config.read_text()), self._directory.config.name)

    def _log_windows(self, windows: Sequence[Window]) -> None:
        from mlflow.entities import Metric

        now = _millis()
        metrics = [
            Metric(name, float(value), now, window.records)
            for window in windows
            for name, value in flat_values({name: getattr(window, name) for name in _METRICS} | _by_step(window.steps))
        ]
        self._last = max([self._last, *(window.records for window in windows)])
        for start in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._run, metrics=metrics[start : start + _MOST_METRICS])

    def _log_versions(self) -> None:
        """Tag the run with the registered version in the model of each step, and of each shadow."""
        running = {step: entered.version for step, entered in dict(self._epoch_log.totals.models.versions).items()}
        if running != self._versions:
            shown = {**dict.fromkeys(self._versions, "none"), **running}
            self._set_tags(self._run, {f"millstream.model.{step}": version for step, version in shown.items()})
            self._versions = running

    def _log_summary(self, summary: Summary) -> None:
        from mlflow.entities import Metric

        # the last window has these at the same step, if it ends with the last record
        in_window = ("accuracy", "baselines") if summary.records == self._last else ()
        values = {name: getattr(summary, name) for name in _SUMMARISED if name not in in_window}
        values |= {} if in_window else _by_step(summary.steps)
        now = _millis()
        metrics = [Metric(name, float(value), now, summary.records) for name, value in flat_values(values)]
        if summary.records != self._summarised:
            self._client.log_batch(self._run, metrics=metrics)
            self._summarised = summary.records
        read = read_partitions(self._directory, self._epoch_log.totals)
        self._client.log_inputs(self._run, source_datasets(self._loaded, read))
        self._set_tags(self._run, {"millstream.ended": summary.ended})
        self._client.log_artifact(self._run, str(self._directory.summary))
        self._client.log_text(self._run, json.dumps(dict(summary.versions), indent=1), "versions.json")
        self._ended = "FINISHED"


def _by_step(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The accuracies of the steps that predict, if there are several.

    >>> _by_step({"bayes": {"accuracy": 0.9}}), _by_step({"bayes": {"accuracy": 0.9}, "soft": {"accuracy": 0.8}})
    ({}, {'steps': {'bayes': {'accuracy': 0.9}, 'soft': {'accuracy': 0.8}}})
    """
    found = {
        step: {name: each[name] for name in ("accuracy", "window_accuracy") if name in each}
        for step, each in steps.items()
    }
    return {"steps": found} if len(found) > 1 else {}


def _millis() -> int:
    return int(time.time() * 1000)

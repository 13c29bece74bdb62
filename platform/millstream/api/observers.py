"""The observers of every start: metrics, status, MLflow if the config has it, and those that the caller adds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from millstream.runs.versions import versions
from millstream.runs.watch.metrics import Metrics
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.progress_file import ProgressFile
from millstream.runs.watch.run_stats import StatsCollector
from millstream.state.checkpoints import Checkpoint, CheckpointReader

__all__ = ["MoreObservers", "changed_libraries", "make_observers"]

_LOGGER = logging.getLogger(__name__)

MoreObservers = Callable[[Watched, StatsCollector], Sequence[Observer]]
"""A function that makes the observers of one caller."""


def make_observers(watched: Watched, more: MoreObservers) -> Sequence[Observer]:
    """Make the observers of one start; warnings go to the logger of this module."""
    stats = StatsCollector(watched)
    added = more(watched, stats)
    if changed := changed_libraries(_newest_checkpoint(watched), versions(watched.loaded.config)):
        _LOGGER.warning("the newest checkpoint was written with %s; results may differ in their last bits", changed)
    live = ProgressFile(watched.directory, stats.run_stats, warn=_LOGGER.warning)
    config = watched.loaded.config.mlflow
    if not config:
        return [Metrics(watched, warn=_LOGGER.warning), stats, *added, live]
    from millstream.runs.watch.mlflow import MlflowObserver  # a slow import

    mirror = MlflowObserver(watched, config, warn=_LOGGER.warning)
    found = [Metrics(watched, warn=_LOGGER.warning, then=mirror.window), stats, *added, live, mirror]
    if config.model is not None:
        from millstream.runs.watch.mlflow_versions import VersionObserver

        found.append(VersionObserver(watched, config, config.model, warn=_LOGGER.warning, said=_LOGGER.info))
    return found


def _newest_checkpoint(watched: Watched) -> Checkpoint | None:
    return CheckpointReader(watched.directory.path, watched.epoch_log.totals.checkpoint).newest()


def changed_libraries(checkpoint: Checkpoint | None, now: Mapping[str, str]) -> str:
    """Return the libraries whose version changed since this checkpoint was written, as text."""
    before = checkpoint.versions if checkpoint is not None else now
    return ", ".join(
        f"{name} {before[name]} (now {now[name]})" for name in before if now.get(name, before[name]) != before[name]
    )

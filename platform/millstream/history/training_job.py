"""A training in progress: what every way to train a model on a history gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.engines.spark.background_session import BackgroundSession
from millstream.history.features import Progress
from millstream.history.folder import HistoryFolder
from millstream.history.plan import Plan
from millstream.history.setup import TaskSetup

__all__ = ["Training"]


@dataclass(frozen=True)
class Training:
    """The folder `work` has the features of all blocks; the version of the model is to be written into `out`.

    `steps` has the configs of the steps before the model and of the model's step, for the version.
    """

    spark: BackgroundSession
    setup: TaskSetup
    work: HistoryFolder
    out: Path
    plan: Plan
    steps: tuple[Mapping[str, Any], ...]
    watch: Callable[[Progress], None]

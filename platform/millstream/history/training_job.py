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
from millstream.steps.nodes import Node

__all__ = ["ROUND_RECORDS", "Training"]

ROUND_RECORDS = 500_000
"""Shorter rounds cost more averages, and their models predict no better."""


@dataclass(frozen=True)
class Training:
    """The folder `work` has the features of all blocks; the version of the model is to be written into `out`.

    `model` is the model's step. `steps` has the configs of the steps before it and of itself, for the version.
    A round of an averaged training has `round_records` records at most.
    """

    spark: BackgroundSession
    setup: TaskSetup
    work: HistoryFolder
    out: Path
    plan: Plan
    model: Node
    steps: tuple[Mapping[str, Any], ...]
    round_records: int
    watch: Callable[[Progress], None]

"""Training on a history: features by tasks of Spark, then a way to learn them, and the version of a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from millstream.config.load import Loaded
from millstream.engines.spark.background_session import BackgroundSession
from millstream.errors import Truncated
from millstream.history.backfill import check_complete, checked_way, result_of
from millstream.history.cuts import replayed
from millstream.history.features import Progress, compute_features
from millstream.history.folder import Complete, Facts, HistoryFolder
from millstream.history.how import DEFAULT, check_model, learner
from millstream.history.made_from import made_from
from millstream.history.plan import BLOCK_RECORDS, Plan
from millstream.history.setup import setup_of
from millstream.history.training_job import ROUND_RECORDS, Training
from millstream.runs.model_versions import version_steps
from millstream.state.model_version import ModelVersion

__all__ = ["Trained", "remove_work", "train"]

_WORK, _MISSING = "the training", "the blocks that are missing"


class Trained(Complete):
    """A complete training."""

    @property
    def version(self) -> ModelVersion:
        """The version of the model."""
        return ModelVersion.load(self.path)


def train(
    loaded: Loaded,
    out: Path,
    *,
    how: str = DEFAULT,
    replay: Path | None = None,
    step: str | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
    tasks: int | None = None,
    block_records: int = BLOCK_RECORDS,
    round_records: int = ROUND_RECORDS,
    sessions: type[BackgroundSession] = BackgroundSession,
) -> Trained:
    """Train the model of a config, or that of `step`, on the whole history; nothing if the folder is complete.

    `tasks` is the number of Spark tasks; None: one for each part of the work.
    """
    way = checked_way(loaded, step, "training on a history")
    check_model(how, way.model)
    steps = [*way.steps, way.model]
    options = version_steps(loaded, steps)
    run = None if replay is None else replayed(replay)
    facts, work = Facts(out, "training"), HistoryFolder(out / "work")
    with facts.lock():
        made = made_from(loaded, steps, "" if run is None else run.id, step=way.model.name, how=how)
        result = facts.claim(made)
        if result is not None:
            check_complete(loaded, work)
            remove_work(work)
            return Trained(out, result, was_there=True)
        with sessions(work.spark_log, tasks, _WORK, _MISSING) as spark:
            setup = setup_of(loaded, way, work.path)
            shards = loaded.config.guarantee.shards
            computed = compute_features(spark, setup, way, shards, work, replay, watch, block_records)
            features = result_of(computed, loaded, replay)
            _refuse_gaps(computed.plan)
            training = Training(spark, setup, work, out, computed.plan, way.model, options, round_records, watch)
            scores = learner(how)(training)
        result = {**features, "step": way.model.name, "how": how, "digest": ModelVersion.load(out).digest, **scores}
        facts.complete(result)
        remove_work(work)
        return Trained(out, result, was_there=False)


def _refuse_gaps(plan: Plan) -> None:
    """Refuse a history that lacks records between others; it may begin with any record."""
    begins = {(partition.source, partition.name): partition.begin for partition in plan.partitions}
    for gap in plan.gaps:
        if gap.start > begins[gap.source, gap.name]:
            message = (
                f"the history has a gap: {gap}, between records that are there, so a model would miss them; train on "
                "a history without a gap, or without --replay on what the log still has"
            )
            raise Truncated(message)


def remove_work(work: HistoryFolder) -> None:
    """Remove the features and states of a complete training; its plan and its cuts stay."""
    for folder in (work.features, work.legs, work.notes, work.learned, work.costs, work.path / "cache"):
        shutil.rmtree(folder, ignore_errors=True)

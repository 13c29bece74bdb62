"""The features of a history on Spark: its cuts, then the tasks of its blocks, each of which is done once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.engines.spark.background_session import BackgroundSession
from millstream.history.bounds import Bounds
from millstream.history.exchange_files import groups_of
from millstream.history.folder import HistoryFolder, Note
from millstream.history.head_task import head_task_name
from millstream.history.keyed_task import keyed_task_name
from millstream.history.plan import BLOCK_RECORDS, Plan
from millstream.history.setup import TaskSetup
from millstream.history.spark_tasks import cut_logs, prepare, run_head_tasks, run_keyed_tasks
from millstream.history.way import Way

__all__ = ["Computed", "Progress", "compute_features"]


@dataclass(frozen=True)
class Progress:
    """The number of finished tasks, of all tasks, and of those that were finished before this start; records so far.

    `doing` names the work, and `unit` what it is divided into.
    """

    doing: str
    finished: int
    tasks: int
    before: int
    records: int
    unit: str = "tasks"


@dataclass(frozen=True)
class Computed:
    """The plan of a history, and the notes of its tasks in the order of the blocks."""

    plan: Plan
    notes: Sequence[Note]


def compute_features(
    spark: BackgroundSession,
    setup: TaskSetup,
    way: Way,
    shards: int,
    folder: HistoryFolder,
    replay: Path | None,
    watch: Callable[[Progress], None],
    block_records: int = BLOCK_RECORDS,
) -> Computed:
    """Compute the features that the folder lacks; a task whose note is there is not run again."""
    text = setup.text()
    folder.make()
    folder.remove_partial()
    if not spark.is_started:
        spark.start()
    spark.prepare(functools.partial(prepare, text), 64)
    watch(Progress("cuts", 0, 0, 0, 0))
    spark.run(
        functools.partial(cut_logs, text, None if replay is None else str(replay.absolute()), block_records), [""]
    )
    plan = folder.plan()
    setup.bounds.check(plan)
    stages = _stages(plan, way, shards, setup.bounds)
    names = [name for _, _, tasks in stages for name in tasks]
    known: dict[str, Note] = {}
    before = len(folder.done(known))

    def report(doing: str) -> None:
        notes = folder.done(known)
        watch(Progress(doing, len(notes), len(names), before, sum(note.records for note in notes.values())))

    for doing, function, tasks in stages:
        report(doing)
        missing = [task for name, task in tasks.items() if name not in known]
        spark.run(functools.partial(function, text), missing, functools.partial(report, doing))
    notes = folder.done(known)
    return Computed(plan, [notes[name] for name in names])


_Stage = tuple[str, Callable[[str, Iterable[list[str]]], None], Mapping[str, str]]
"""The name of a stage, the function that runs its tasks, and the tasks by their names."""


def _stages(plan: Plan, way: Way, shards: int, bounds: Bounds) -> list[_Stage]:
    """The legs in an order in which each follows those that it reads."""
    heads = {
        head_task_name(number, rank): f"{number} {rank}"
        for number, block in enumerate(plan.blocks)
        for rank in block.spans
        if way.keyed  # state by key depends on all records, and on the times in all sources
        or (plan.partitions[rank].source in way.sources and bounds.touches(block, rank, plan.partitions[rank]))
    }
    stages: list[_Stage] = [("features", run_head_tasks, heads)]
    for leg in way.keyed:
        groups = {keyed_task_name(leg.index, group): f"{leg.index} {group}" for group in range(groups_of(shards))}
        stages.append((f"keys of {leg.steps[0].name}", run_keyed_tasks, groups))
    return stages

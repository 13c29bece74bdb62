"""The work on a history in processes of Spark: functions that a Spark task calls with the parts of its work."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.compiled.later_imports import import_noted
from millstream.history.cuts import make_plan
from millstream.history.folder import HistoryFolder
from millstream.history.head_task import head_task_name, run_head
from millstream.history.keyed_task import keyed_task_name, run_keyed
from millstream.history.plan import Plan
from millstream.history.setup import Opened, open_once
from millstream.system_errors import system_error

__all__ = ["cut_logs", "opened_setup", "plan_of", "prepare", "run_head_tasks", "run_keyed_tasks"]


def prepare(setup: str, partition: Iterable[list[str]]) -> None:
    """Import the modules that tasks need, in a process of Spark."""
    for _ in partition:  # a process that leaves its input unread ends, and would be of no use to the tasks
        with opened_setup(setup):
            import_noted()
            gc.freeze()  # PySpark collects garbage after each task


def cut_logs(setup: str, replay: str | None, block_records: int, partition: Iterable[list[str]]) -> None:
    """Make the plan of a history, or check the logs of the plan that is there."""
    for _ in partition:
        with opened_setup(setup) as opened:
            make_plan(opened, None if replay is None else Path(replay), block_records)


def run_head_tasks(setup: str, partition: Iterable[list[str]]) -> None:
    """Run tasks of the first leg, each named by its block and its partition."""
    for tasks in partition:
        with opened_setup(setup) as opened:
            plan = plan_of(opened.folder.path)
            for task in tasks:
                block, rank = map(int, task.split())
                if not opened.folder.is_done(head_task_name(block, rank)):  # in an attempt whose process was lost
                    run_head(opened, plan, block, rank)


def run_keyed_tasks(setup: str, partition: Iterable[list[str]]) -> None:
    """Run tasks of legs with state by key, each named by its leg and its group of shards."""
    for tasks in partition:
        with opened_setup(setup) as opened:
            for task in tasks:
                leg, group = map(int, task.split())
                if not opened.folder.is_done(keyed_task_name(leg, group)):
                    run_keyed(opened, plan_of(opened.folder.path), leg, group)


@functools.lru_cache(maxsize=1)
def plan_of(folder: Path) -> Plan:
    """The plan in a folder."""
    return HistoryFolder(folder).plan()


@contextmanager
def opened_setup(setup: str) -> Iterator[Opened]:
    """The logs and steps of a setup, with errors that a user can act on and that show no secret."""
    opened = open_once(setup)
    try:
        with opened.secrets.redacting():
            yield opened
    except OSError as error:
        raise system_error(error) or error from error

"""Sequential training: one task learns all records in the order of the stream, as a run of the same cuts does.

The task stores its state now and then, and a later attempt continues from there.
"""

from __future__ import annotations

import functools
import json
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from millstream.history.features import Progress
from millstream.history.how.block_records import NO_SCORES, block_records, learn_records
from millstream.history.how.task_costs import longest_seconds, measured
from millstream.history.plan import Plan
from millstream.history.setup import Opened
from millstream.history.spark_tasks import opened_setup, plan_of
from millstream.history.training_job import Training
from millstream.history.watermarks import latest_time
from millstream.log.journal.durability import make_folder, write_whole
from millstream.state.model_version import ModelVersion
from millstream.steps.contracts import State

__all__ = ["learn"]

_PAUSE = 9
"""The time between two stored states, in times of the duration of the last one."""
_SCORES = "scores.json"


def learn(training: Training) -> Mapping[str, Any]:
    """Learn all blocks in one task, and return the scores of the model's predictions before it learned each record."""
    states, plan = _States(training.work.learned), training.plan
    before = states.newest
    sizes = [block.size for block in plan.blocks]

    def report() -> None:
        blocks = states.newest
        training.watch(Progress("learned", blocks, len(sizes), before, sum(sizes[:blocks]), "blocks"))

    text, steps = training.setup.text(), json.dumps(training.steps)
    training.spark.run(functools.partial(_learn_all, text, steps, training.out.absolute()), [""], report)
    scores: Mapping[str, Any] = json.loads((training.out / _SCORES).read_text())
    return {**scores, **longest_seconds(training.work, before > 0)}


def _learn_all(setup: str, steps: str, out: Path, partition: Iterable[list[str]]) -> None:
    """Learn the blocks that no earlier attempt has learned, in a process of Spark; then write the version."""
    for _ in partition:
        with opened_setup(setup) as opened, measured(opened.folder, 0, 0):
            plan = plan_of(opened.folder.path)
            configs = tuple(json.loads(steps))
            learner = _Learner(opened, plan, configs, _States(opened.folder.learned))
            learner.learn()
            learner.write(out, None)


class _States:
    """The states of the learner after some blocks, each in a folder with the number of blocks as its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def newest(self) -> int:
        """The number of blocks in the newest state; 0 without one."""
        return max((int(file.parent.name) for file in self._folder.glob("*/version.json")), default=0)

    def folder(self, blocks: int) -> Path:
        folder = self._folder / f"{blocks:06d}"
        make_folder(folder)
        return folder

    def remove_others(self, blocks: int) -> None:
        for folder in self._folder.iterdir():
            if int(folder.name) != blocks:
                (folder / "version.json").unlink(missing_ok=True)  # a folder without this file is no state
                shutil.rmtree(folder, ignore_errors=True)


class _Learner:
    """The model's step, and the blocks that it has learned."""

    def __init__(self, opened: Opened, plan: Plan, steps: tuple[Mapping[str, Any], ...], states: _States) -> None:
        self._opened, self._plan, self._configs, self._states = opened, plan, steps, states
        self._node = opened.way.model
        self._scores = dict(NO_SCORES)
        self._blocks = states.newest
        state: State = {}
        if self._blocks:
            state = ModelVersion.load(states.folder(self._blocks)).state
            self._scores = json.loads((states.folder(self._blocks) / _SCORES).read_text())
        self._node.step.restore(state)

    def learn(self) -> None:
        """Learn the blocks that are left, and store the state in between."""
        saved, took = time.monotonic(), 0.0
        for number in range(self._blocks, len(self._plan.blocks)):
            records = block_records(self._opened, number)
            learn_records(self._opened, self._plan, number, records, self._scores)
            if time.monotonic() - saved >= _PAUSE * took:
                began = time.monotonic()
                self.write(self._states.folder(number + 1), number + 1)
                self._states.remove_others(number + 1)
                saved = time.monotonic()
                took = saved - began

    def write(self, folder: Path, blocks: int | None) -> None:
        """Write the version after so many blocks; None: after all."""
        write_whole(folder / _SCORES, json.dumps(self._scores))
        state = self._node.step.save()
        trained = self._plan.trained(blocks)
        latest = latest_time(self._opened.folder) if blocks is None else None
        ModelVersion(self._node.name, state, self._configs, trained, self._plan.cuts, latest).save(folder)

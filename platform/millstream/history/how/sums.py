"""Training by sums, for models whose state adds up: tasks learn the blocks, and one task adds what they learned."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from millstream.history.folder import HistoryFolder
from millstream.history.how.block_records import block_records
from millstream.history.how.labels import Labels, read_labels
from millstream.history.how.missing_parts import run_missing
from millstream.history.how.task_costs import measured
from millstream.history.spark_tasks import opened_setup, plan_of
from millstream.history.training_job import Training
from millstream.history.watermarks import latest_time
from millstream.state.model_version import ModelVersion

__all__ = ["learn_sums"]

_LEARN, _ADD = 1, 2
"""The stages after that of the labels."""


def learn_sums(training: Training, labels: Labels) -> Mapping[str, Any]:
    """Learn each block in a task, and add what the blocks have learned; the sum is the state of a run."""
    setup, steps = training.setup.text(), json.dumps(training.steps)
    sizes = dict(enumerate(labels.blocks))
    learn = functools.partial(_learn_blocks, setup)
    run_missing(training, "learned", "blocks", sizes, learn, lambda block: _part(training.work, block) / "version.json")
    training.spark.run(functools.partial(_add_all, setup, steps, training.out.absolute()), [""])
    return {"learned": labels.records, "labelled": labels.labelled}


def _learn_blocks(setup: str, partition: Iterable[list[str]]) -> None:
    """Store what blocks add to the state, in a process of Spark."""
    for blocks in partition:
        with opened_setup(setup) as opened:
            labels, node = read_labels(opened.folder), opened.way.model
            step: Any = node.step
            for number in map(int, blocks):
                with measured(opened.folder, _LEARN, number):
                    state = step.part(block_records(opened, number), labels.names)
                    ModelVersion(node.name, state, (), {}, "").save(_part(opened.folder, number))


def _add_all(setup: str, steps: str, out: Path, partition: Iterable[list[str]]) -> None:
    """Add all parts and write the version, in a process of Spark."""
    for _ in partition:
        with opened_setup(setup) as opened, measured(opened.folder, _ADD, 0):
            plan, node = plan_of(opened.folder.path), opened.way.model
            parts = [ModelVersion.load(_part(opened.folder, number)).state for number in range(len(plan.blocks))]
            step: Any = node.step
            step.restore({})
            step.add(parts, read_labels(opened.folder).names)
            configs = tuple(json.loads(steps))
            latest = latest_time(opened.folder)
            ModelVersion(node.name, step.save(), configs, plan.trained(), plan.cuts, latest).save(out)


def _part(folder: HistoryFolder, block: int) -> Path:
    return folder.learned / "parts" / f"{block:06d}"

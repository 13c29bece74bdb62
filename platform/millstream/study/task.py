"""One task of a study: groups of trials over one stream in one order, run in one process."""

from __future__ import annotations

from collections.abc import Collection as Keys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.study.closed_form import ClosedForm
from millstream.study.collection import Collection, open_collection
from millstream.study.failures import Schedule, schedule_failures
from millstream.study.grid import Group, groups_of
from millstream.study.labels import Labels
from millstream.study.learner import Learner
from millstream.study.results import ResultFolder, write_part
from millstream.study.streams import OrderedStream, label_number, order_stream
from millstream.study.study_file import StudyConfig
from millstream.study.treatments import plan_treatment
from millstream.study.trial import Trial
from millstream.study.trial_run import Inputs, Sequence, predict_all, run_trial

__all__ = ["Task", "run_task", "tasks_of"]


@dataclass(frozen=True)
class Task:
    """A stream, a seed, and learners; each learner is a group of trials."""

    stream: str
    seed: int
    learners: list[str]


def tasks_of(study: StudyConfig, finished: Keys[str]) -> list[Task]:
    """Return the tasks with the trials that are not finished; those of slow learners come first, each by itself."""
    slow: list[Task] = []
    others: dict[tuple[int, str], list[str]] = {}
    for group in groups_of(study):
        if finished and all(trial.key in finished for trial, _ in group.trials(study)):
            continue
        if group.learner in study.fewer_seeds:
            slow.append(Task(group.stream, group.seed, [group.learner]))
        else:
            others.setdefault((study.seed_list.index(group.seed), group.stream), []).append(group.learner)
    seeds = study.seed_list
    return slow + [Task(stream, seeds[index], others[index, stream]) for index, stream in sorted(others)]


def run_task(study: StudyConfig, task: Task, folder: ResultFolder, finished: Keys[str] = frozenset()) -> None:
    """Run the trials of a task that are not finished. The rows of a group become visible together, in a new part."""
    collection = open_collection(folder.collection)
    stream = order_stream(
        study.streams[task.stream],
        collection.labels,
        collection.names,
        records=study.records(task.stream),
        holdout=study.data.holdout,
        before=study.data.trained_before,
        seed=task.seed,
    )
    ordered = _Ordered(collection, stream, study.threshold)
    with ThreadPoolExecutor(1, "millstream-parts") as writer:  # the next group runs while the disk writes one
        written: Future[None] | None = None
        for learner in task.learners:
            rows = [*_run_group(study, Group(task.stream, task.seed, learner), ordered, finished)]
            if written is not None:
                written.result()
            written = writer.submit(write_part, folder.parts, rows, collection.names)
        if written is not None:
            written.result()


class _Ordered:
    """A stream, with everything that its trials share: columns in its order, and sequences of treatments."""

    def __init__(self, collection: Collection, stream: OrderedStream, threshold: float) -> None:
        self.collection, self.stream = collection, stream
        self._closed_form = ClosedForm(Labels(tuple(collection.names), stream.labels), threshold)
        self._columns: dict[str, list[pa.Array]] = {}
        self._sequences: dict[Trial, Sequence] = {}

    def inputs(self, learner: Learner) -> Inputs:
        name = learner.reads
        if name not in self._columns:
            column = self.collection.columns[name].chunk(0)
            parts = (self.stream.positions, self.stream.holdout, self.stream.before)
            self._columns[name] = [column.take(pa.array(part)) for part in parts]
        return Inputs(self.stream, *map(learner.prepare, self._columns[name]))

    def sequence(self, trial: Trial, treatment: Any) -> Sequence:
        """Return the sequence of a trial, which is the same for all learners."""
        of_all = replace(trial, learner="", learner_config="")
        if of_all not in self._sequences:
            plan = plan_treatment(treatment, self._schedule(trial), len(self.stream.labels), trial.seed)
            self._sequences[of_all] = Sequence(of_all, plan, self.stream, self._closed_form, len(self.collection.names))
        return self._sequences[of_all]

    def _schedule(self, trial: Trial) -> Schedule:
        if not trial.failures:
            return Schedule(np.array([0, len(self.stream.labels)]), 1, 1, ())
        topic = label_number(trial.topic, self.collection.names) if trial.topic else None
        return schedule_failures(trial, self.stream.labels, topic)


def _run_group(study: StudyConfig, group: Group, ordered: _Ordered, finished: Keys[str]) -> Iterator[dict[str, Any]]:
    trials = group.trials(study)
    if all(trial.key in finished for trial, _ in trials):
        return
    collection = ordered.collection
    learner = Learner(study.learners[group.learner], collection.columns.schema, len(collection.names))
    inputs = ordered.inputs(learner)
    frozen = predict_all(inputs, learner) if study.data.trained_before else None
    lost = {ordered.sequence(trial, treatment).counts["not_trained"] for trial, treatment in trials} - {0}
    pair = None
    for trial, treatment in trials:
        if trial.key in finished and pair is not None:
            continue
        sequence = ordered.sequence(trial, treatment)
        lacking = lost if pair is None else ()
        row, results = run_trial(trial, sequence, inputs, learner, pair, study.threshold, frozen, lacking)
        pair = pair or results
        if trial.key not in finished:
            yield row

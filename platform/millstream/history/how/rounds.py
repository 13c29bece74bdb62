"""Training in parts and rounds, for models that can be averaged.

The history is divided by position into rounds, and a round into parts. Tasks learn the parts of a round apart from each
other, from the state at its beginning; the next round begins with their average. The parts do not depend on the number
of tasks or of blocks, so neither does the model.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from millstream.history.folder import HistoryFolder
from millstream.history.how.block_records import NO_SCORES, block_records, learn_records
from millstream.history.how.labels import Labels, read_labels
from millstream.history.how.missing_parts import run_missing
from millstream.history.how.task_costs import measured
from millstream.history.setup import Opened
from millstream.history.spark_tasks import opened_setup, plan_of
from millstream.history.training_job import Training
from millstream.history.watermarks import latest_time
from millstream.log.journal.durability import make_folder, write_whole
from millstream.state.model_version import ModelVersion
from millstream.steps.contracts import State

__all__ = ["learn_rounds", "rounds_of"]

_PARTS = 4
"""The number of parts of a round. With more parts, the average differs more from the model of a run."""
_VERSION, _SCORES = "version.json", "scores.json"

_Round = tuple[int, ...]
"""The places in the stream where the parts of a round begin, and the place where the last one ends."""


def rounds_of(records: int, most: int) -> list[_Round]:
    """The rounds of a history: of B records in a round, the i-th one is in part floor(i * parts / B).

    >>> rounds_of(15, 10)
    [(0, 2, 4, 6, 7), (7, 9, 11, 13, 15)]
    """
    count = max(1, -(-records // most))
    edges = [records * number // count for number in range(count + 1)]
    return [
        tuple(start - (start - stop) * part // _PARTS for part in range(_PARTS + 1)) for start, stop in pairwise(edges)
    ]


def learn_rounds(training: Training, labels: Labels) -> Mapping[str, Any]:
    """Learn round after round, and write the version; returns the scores of the predictions in the parts."""
    setup, steps, files = training.setup.text(), json.dumps(training.steps), _Files(training.work)
    rounds = files.plan(rounds_of(labels.records, training.round_records))
    for number, bounds in enumerate(rounds):
        if number >= files.averaged:
            sizes = {part: bounds[part + 1] - bounds[part] for part in range(_PARTS)}
            earlier = _sizes(rounds[:number])
            learn, version = functools.partial(_learn_parts, setup, number), functools.partial(files.version, number)
            run_missing(training, "learned", "parts", sizes, learn, version, earlier, _PARTS * len(rounds))
            out = str(training.out.absolute()) if number == len(rounds) - 1 else ""
            training.spark.run(functools.partial(_average, setup, steps, out), [str(number)])
        files.remove_before(number)
    scores = json.loads((training.out / _SCORES).read_bytes())
    return {**scores, "parts": _PARTS, "rounds": len(rounds)}


def _sizes(rounds: Iterable[_Round]) -> list[int]:
    return [bounds[part + 1] - bounds[part] for bounds in rounds for part in range(_PARTS)]


class _Files:
    """The states after the parts of a round, and after their average, with which the next round begins."""

    def __init__(self, folder: HistoryFolder) -> None:
        self._rounds = folder.learned / "rounds"

    def plan(self, rounds: Sequence[_Round] = ()) -> Sequence[_Round]:
        """The rounds of this training: those that an earlier start has stored, else these, which are stored."""
        file = self._rounds / "plan.json"
        if rounds and not file.exists():
            make_folder(self._rounds)
            write_whole(file, json.dumps(rounds))
        return [tuple(bounds) for bounds in json.loads(file.read_bytes())]

    @property
    def averaged(self) -> int:
        """The number of rounds that have an average; that of the last round is the version of the training."""
        return max((int(file.parents[1].name) + 1 for file in self._rounds.glob(f"*/average/{_VERSION}")), default=0)

    def part(self, number: int, part: int) -> Path:
        return self._folder(number, f"part{part}")

    def version(self, number: int, part: int) -> Path:
        """The file that makes a part complete."""
        return self.part(number, part) / _VERSION

    def average(self, number: int) -> Path:
        return self._folder(number, "average")

    def begin(self, number: int) -> State:
        """The state at the beginning of a round."""
        return ModelVersion.load(self.average(number - 1)).state if number else {}

    def remove_before(self, number: int) -> None:
        """Remove the states of the rounds before this one but the average with which it began."""
        for folder in self._rounds.glob("*/*"):
            if int(folder.parent.name) < number - 1 or (int(folder.parent.name) < number and folder.name != "average"):
                (folder / _VERSION).unlink(missing_ok=True)  # a folder without this file is no state
                shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, number: int, name: str) -> Path:
        return self._rounds / f"{number:06d}" / name


def _learn_parts(setup: str, number: int, partition: Iterable[list[str]]) -> None:
    """Learn parts of a round from the state at its beginning, in a process of Spark, and store their states."""
    for parts in partition:
        with opened_setup(setup) as opened:
            files = _Files(opened.folder)
            begin, labels = files.begin(number), read_labels(opened.folder)
            bounds = files.plan()[number]
            for part in map(int, parts):
                with measured(opened.folder, 1 + 2 * number, part):
                    scores = _learn_part(opened, labels, begin, bounds[part], bounds[part + 1])
                    _write(opened, files.part(number, part), scores)


def _learn_part(opened: Opened, labels: Labels, begin: State, start: int, stop: int) -> dict[str, int]:
    """Learn the records between two places in the stream; returns the scores of the predictions."""
    step: Any = opened.way.model.step
    scores = dict(NO_SCORES)
    step.restore(begin)
    step.begin_part(labels.before(start))
    plan, place = plan_of(opened.folder.path), 0
    for block, size in enumerate(labels.blocks):
        if start < place + size and place < stop:
            first = max(start - place, 0)
            records = block_records(opened, block).slice(first, stop - place - first)
            learn_records(opened, plan, block, records, scores)
        place += size
    step.end_part()
    return scores


def _average(setup: str, steps: str, out: str, partition: Iterable[list[str]]) -> None:
    """Store the average of the parts of a round, in a process of Spark; as the version in `out` after the last one."""
    for rounds in partition:
        for number in map(int, rounds):
            with opened_setup(setup) as opened, measured(opened.folder, 2 + 2 * number, 0):
                files, labels = _Files(opened.folder), read_labels(opened.folder)
                scores = [_scores(files.part(number, part)) for part in range(_PARTS)]
                step: Any = opened.way.model.step
                step.restore(files.begin(number))
                step.average(_states(files, number, scores), labels.before(files.plan()[number][-1]))
                before = [_scores(files.average(number - 1))] if number else []
                sums = {name: sum(each[name] for each in [*before, *scores]) for name in scores[0]}
                _write(opened, Path(out) if out else files.average(number), sums, steps if out else None)


def _states(files: _Files, number: int, scores: list[dict[str, int]]) -> Iterator[tuple[State, int]]:
    """The states of the parts of a round, each with its labelled records."""
    for part, each in enumerate(scores):
        yield ModelVersion.load(files.part(number, part)).state, each["labelled"]


def _scores(folder: Path) -> dict[str, int]:
    scores: dict[str, int] = json.loads((folder / _SCORES).read_bytes())
    return scores


def _write(opened: Opened, folder: Path, scores: Mapping[str, int], steps: str | None = None) -> None:
    """Write the state of the step, and its scores before it; with the configs of the steps, as a version."""
    make_folder(folder)
    write_whole(folder / _SCORES, json.dumps(scores))
    node, plan = opened.way.model, plan_of(opened.folder.path)
    state = node.step.save()
    if steps is None:
        ModelVersion(node.name, state, (), {}, "").save(folder)
    else:
        configs, latest = tuple(json.loads(steps)), latest_time(opened.folder)
        ModelVersion(node.name, state, configs, plan.trained(), plan.cuts, latest).save(folder)

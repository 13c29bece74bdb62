"""The judgement of one candidate on one rung, in a Spark task: accuracy while it learns, and on held-out records."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.config.models import Config
from millstream.errors import MillstreamError, StepFailed
from millstream.history.folder import HistoryFolder
from millstream.history.search.ordered_records import ordered_batches, ordered_folder
from millstream.history.setup import build_way, read_setup
from millstream.log.journal.durability import write_whole
from millstream.redaction import Secrets
from millstream.steps.nodes import Node
from millstream.steps.runner import process_batch
from millstream.system_errors import system_error

__all__ = ["Accuracy", "Assignment", "Judgement", "judge_candidates"]

_ROWS_AT_ONCE = 10_000
_POINTS = 50


@dataclass(frozen=True)
class Accuracy:
    """The labelled records of a span, and the number of them whose label was predicted."""

    labelled: int
    correct: int

    @property
    def share(self) -> float | None:
        """The accuracy; None without labelled records."""
        return self.correct / self.labelled if self.labelled else None


@dataclass(frozen=True)
class Assignment:
    """The work of one task: the setup of the candidate, the first `records` of the `before` that no test holds out."""

    setup: str
    candidate: int
    rung: int
    records: int
    before: int
    total: int
    file: str

    def text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Judgement:
    """The result of one candidate on one rung.

    `prequential` is of the predictions that were made before each record was learned, `held_out` of the predictions of
    the last records of the history, which the candidate did not learn. `curve` has the prequential accuracy of spans of
    equal length. A candidate that failed has an `error`, and no accuracy.
    """

    candidate: int
    rung: int
    records: int
    prequential: Accuracy
    held_out: Accuracy
    curve: tuple[Accuracy, ...]
    span: int
    seconds: float
    cpu: float
    error: str | None

    @property
    def order(self) -> tuple[bool, int, float, int]:
        """The place among all judgements, the best first: later rungs before earlier ones, then by accuracy."""
        return self.error is not None, -self.rung, -(self.prequential.share or 0.0), self.candidate

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def load(file: Path) -> Judgement:
        content = json.loads(file.read_text())
        parts = {name: Accuracy(**content[name]) for name in ("prequential", "held_out")}
        return Judgement(**{**content, **parts, "curve": tuple(Accuracy(**each) for each in content["curve"])})


def judge_candidates(partition: Iterable[list[str]]) -> None:
    """Judge candidates, each named by its assignment, in a process of Spark."""
    for texts in partition:
        for text in texts:
            assignment = Assignment(**json.loads(text))
            if not Path(assignment.file).exists():  # in an attempt whose process was lost
                _judge(assignment)


def _judge(assignment: Assignment) -> None:
    setup = read_setup(assignment.setup)
    secrets = Secrets(setup.secrets)
    with secrets.redacting():
        node = build_way(setup, Config.model_validate(setup.config)).model
        place = ordered_folder(HistoryFolder(Path(setup.folder)))
        try:
            judgement = _judged(assignment, node, place, secrets)
        except OSError as error:
            raise system_error(error) or error from error
        write_whole(Path(assignment.file), judgement.text())


def _judged(assignment: Assignment, node: Node, place: Path, secrets: Secrets) -> Judgement:
    began, cpu = time.monotonic(), time.process_time()
    span, size = _span(assignment.before)
    curve: list[Accuracy] = []
    tested, error = Accuracy(0, 0), None
    try:
        curve = _learned(node, place, assignment.records, span, size)
        tested = _tested(node, place, assignment.before, assignment.total)
    except MillstreamError as failed:
        error = secrets.redact(str(failed))
    return Judgement(
        assignment.candidate,
        assignment.rung,
        assignment.records,
        _sum(curve),
        tested,
        tuple(curve),
        span,
        time.monotonic() - began,
        time.process_time() - cpu,
        error,
    )


def _span(records: int) -> tuple[int, int]:
    """The length of a span of the curve, and of the batches into which it is divided.

    >>> _span(45_000), _span(2_000_001), _span(3)
    ((900, 900), (40005, 8001), (1, 1))
    """
    span = max(1, -(-records // _POINTS))
    parts = -(-span // _ROWS_AT_ONCE)
    size = -(-span // parts)
    return size * parts, size


def _learned(node: Node, place: Path, records: int, span: int, size: int) -> list[Accuracy]:
    """Predict and learn the first records; the accuracy of the predictions in each span."""
    found: list[list[Accuracy]] = [[] for _ in range(-(-records // span))]
    learned = 0
    for batch in ordered_batches(place, 0, records, size):
        result = process_batch(node, batch, _Position(learned))
        found[learned // span].append(Accuracy(result.labelled, result.correct))
        learned += batch.num_rows
    return [_sum(each) for each in found]


def _tested(node: Node, place: Path, start: int, stop: int) -> Accuracy:
    """Predict the held-out records, and learn none of them."""
    found = []
    for batch in ordered_batches(place, start, stop, _ROWS_AT_ONCE):
        step: Any = node.step
        try:
            predicted = step.ask(batch)["predicted"]
        except MillstreamError:
            raise
        except Exception as error:
            message = f"step '{node.name}' failed on held-out records: {type(error).__name__}: {error}"
            raise StepFailed(message) from error
        labels = batch[node.config.label].cast(pa.string())
        labelled = labels.is_valid().to_numpy()
        same = pc.fill_null(pc.equal(labels, predicted), fill_value=False).to_numpy()
        found.append(Accuracy(int(labelled.sum()), int(np.count_nonzero(same))))
    return _sum(found)


def _sum(parts: Iterable[Accuracy]) -> Accuracy:
    parts = list(parts)
    return Accuracy(sum(each.labelled for each in parts), sum(each.correct for each in parts))


@dataclass(frozen=True)
class _Position:
    """The position of records in the order of the stream, for errors."""

    start: int

    def of_record(self, rank: int, offset: int, path: bytes = b"") -> str:
        return f"rank {rank}, offset {offset}"

    def of_batch(self, records: pa.Table) -> str:
        return f"in the {records.num_rows:,} records after the first {self.start:,}"

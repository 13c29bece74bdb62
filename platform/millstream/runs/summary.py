"""The summary of a run over all its starts: counts of records and rows, and digests to compare runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from millstream.config.load import Loaded
from millstream.digests import Digest
from millstream.errors import UnknownFormat
from millstream.log.epochs import EpochLog, Scores
from millstream.runs.directory import RunDirectory
from millstream.runs.watch.speed import per_second
from millstream.steps.outcome import Outcome

__all__ = ["Summary", "summarise"]


@dataclass(frozen=True)
class Summary:
    """The object that `run --json` prints.

    The counts cover all starts in the run directory; `seconds` and `records_per_second` cover this start only.
    `delivered` and `outputs` are sums over all rows that were ever appended to a sink, which its progress has too.
    If several steps predict, `accuracy` and `baselines` are those of all their predictions, `model` is the first model,
    and `steps` has the model, the accuracy and the baselines of each of these steps; otherwise there is no `steps`.
    """

    run: str
    pipeline: str
    engine: str
    delivery: str
    recovery: str
    ended: str
    records: int
    processed: int
    epochs: int
    delivered: Mapping[str, int]
    accuracy: float | None
    baselines: Mapping[str, float] | None
    model: str | None
    state: str
    outputs: Mapping[str, str]
    versions: Mapping[str, str]
    seconds: float
    records_per_second: float
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The summary as a JSON object."""
        content = asdict(self)
        if not self.steps:
            del content["steps"]
        return content

    def json(self) -> str:
        return json.dumps(self.content())

    @classmethod
    def read(cls, path: Path) -> Summary:
        """Read the file summary.json of a run directory."""
        try:
            return cls(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            message = (
                f"{path} is damaged, or another version of Millstream wrote it; the next clean end writes it again"
            )
            raise UnknownFormat(message) from error


def summarise(
    loaded: Loaded,
    directory: RunDirectory,
    epoch_log: EpochLog,
    outcome: Outcome,
    delivered: Mapping[str, Digest],
    ended: str,
    processed_before: int,
    seconds: float,
    versions: Mapping[str, str],
) -> Summary:
    """Make a summary from the totals of the epoch log, the outcome of the steps, and the progress of the sinks."""
    totals = epoch_log.totals
    config = loaded.config
    return Summary(
        run=str(directory.path),
        pipeline=config.name,
        engine=config.engine.type,
        delivery=str(config.guarantee.delivery),
        recovery=config.guarantee.recovery,
        ended=ended,
        records=totals.records,
        processed=totals.processed,
        epochs=totals.epochs,
        delivered={name: digest.count for name, digest in delivered.items()},
        accuracy=totals.accuracy,
        baselines=totals.baseline_accuracies,
        model=outcome.model,
        state=str(outcome.digest),
        outputs={name: str(digest) for name, digest in delivered.items()},
        versions=versions,
        seconds=round(seconds, 3),
        records_per_second=round(per_second(totals.processed - processed_before, seconds) or 0.0, 1),
        steps=_by_step(outcome, totals.scores) if len(outcome.models) > 1 else {},
    )


def _by_step(outcome: Outcome, scores: Mapping[str, Scores]) -> dict[str, dict[str, Any]]:
    found = {step: (model, scores.get(step, Scores())) for step, model in outcome.models.items()}
    return {
        step: {"model": model, "accuracy": score.accuracy, "baselines": score.baseline_accuracies}
        for step, (model, score) in found.items()
    }

"""Small pipelines that tests run with crashes on any engine, and the check of their delivery promise."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.documents import EPOCH_RECORDS
from support.forks import start_fork_server

import millstream as ms
from millstream.api.execution import Hooks
from millstream.config.load import Loaded, read_config
from millstream.engines.cutter import Inbox, NoEvents
from millstream.engines.job import Engine
from millstream.guarantees.audit import Audit
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Crash, Delivery, Effects, Point, effects, order
from millstream.log.epochs import EpochReader, EpochReceipt
from millstream.runs.summary import Summary
from millstream.state.version_store import VersionStore
from millstream.timestamps import wall_clock

__all__ = ["InjectedCrash", "Pipeline", "assert_promise", "crash", "receipts_of", "results", "sinks_of"]

SINKS = {
    "predictions": {"type": "files", "format": "jsonl"},
    "topics": {"type": "journal", "path": "{run}-topics"},
}


class InjectedCrash(BaseException):
    """A crash inside this process: the run ends, closes nothing and writes nothing more."""


def crash() -> None:
    raise InjectedCrash


@dataclass
class Pipeline:
    """One pipeline over documents in `folder`, run by `engine` in run directories below it.

    `{run}` in the options of sinks is replaced by the name of the run. `engine_name` may contain the number of workers,
    as in `local-3`; `simulated` has three workers.
    """

    folder: Path
    engine: Engine
    delivery: Delivery = Delivery.EXACTLY_ONCE
    model: dict[str, Any] = field(default_factory=lambda: {"type": "complement_nb", "batch_size": 16})
    checkpoint_every: int = 1
    commit_every: int = 1
    shards: int = 64
    window: dict[str, Any] = field(default_factory=lambda: {"type": "tumbling", "size": "10m", "lateness": "1m"})
    engine_name: str = "local"
    placement: dict[str, str] = field(default_factory=lambda: {"features": "worker"})
    steps: list[dict[str, Any]] | None = None
    source: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    """Several sources by name, instead of `source`."""
    sinks: dict[str, Any] = field(default_factory=lambda: dict(SINKS))
    keep: str | None = "7d"
    epoch_records: int = EPOCH_RECORDS
    inbox: Callable[[VersionStore], Inbox] = lambda versions: NoEvents()
    wall_clock: Callable[[], int] = wall_clock

    def loaded(self, name: str) -> Loaded:
        return read_config(self.config(name), self.folder, f"{name}.yaml")

    def config(self, name: str) -> dict[str, Any]:
        """The content of the config of a run."""
        kind, _, workers = ("local-3" if self.engine_name == "simulated" else self.engine_name).partition("-")
        return {
            "name": "conformance",
            **({"sources": self.sources} if self.sources else {"source": self._source()}),
            "pipeline": {"steps": self.steps} if self.steps else self._text_topics(),
            "sinks": json.loads(json.dumps(self.sinks).replace("{run}", name)),
            "guarantee": {
                "delivery": str(self.delivery),
                "checkpoint_every": self.checkpoint_every,
                "commit_every": self.commit_every,
                "shards": self.shards,
            },
            "keep": self.keep,
            "engine": {
                "type": kind,
                "workers": int(workers or 1),
                "epoch": {"max_records": self.epoch_records},
                "placement": self.placement if kind == "spark" else {},
            },
        }

    def _source(self) -> dict[str, Any]:
        return {**({"type": "files", "path": "documents"} if "type" not in self.source else {}), **self.source}

    def _text_topics(self) -> dict[str, Any]:
        return {
            "use": "text_topics",
            "features": {"type": "hashed_text", "dimensions": 256},
            "model": self.model,
            "popularity": {"window": self.window, "threshold": 0.3},
        }

    def run(self, name: str, **options: Any) -> Summary:
        """Run with these options of `ms.run`, and return the summary."""
        if self.engine_name.startswith("local-"):
            start_fork_server()
        config = ms.Config.from_dict(self.config(name), folder=self.folder)
        hooks = Hooks(engine=self.engine, fire=crash, wall_clock=self.wall_clock, inbox=self.inbox)
        options = {"follow": False, **options}
        summary = ms.run(config, run=self.folder / "runs" / name, _hooks=hooks, **options).summary
        assert summary is not None
        return summary

    def crash(self, name: str, point: CrashPoint, **options: Any) -> None:
        """Run until the crash; fail if the crash does not come."""
        try:
            self.run(name, crash=str(point), **options)
        except InjectedCrash:
            return
        raise AssertionError(f"{point} was never passed")

    def summary(self, name: str) -> Summary:
        """The summary that a run's last clean end wrote."""
        return Summary(**json.loads((self.folder / "runs" / name / "summary.json").read_text()))

    def audit(self, name: str, against: str | None = None) -> Audit:
        runs = self.folder / "runs"
        return ms.open_run(runs / name).audit(ms.open_run(runs / against) if against else None)

    def predicted(self, points: Sequence[CrashPoint], sinks: Sequence[str]) -> Effects:
        """The effects of these crashes according to the function `effects`."""
        crashes = [_counted(p, self.delivery, sinks) for p in points]
        return effects(self.delivery, self.checkpoint_every, self.commit_every, crashes, len(sinks))

    def counts(self, name: str) -> dict[int, dict[str, int]]:
        """For every epoch of a run without crashes its records, and the rows of each output."""
        receipts = EpochReader(self.folder / "runs" / name / "epochs").receipts()
        return {
            receipt.epoch: {
                "records": receipt.records,
                **{output: digest.count for output, digest in receipt.outputs.items()},
            }
            for receipt in receipts
        }


def _counted(point: CrashPoint, delivery: Delivery, sinks: Sequence[str]) -> Crash:
    """A crash as `effects` counts it: a checkpoint that is not complete is none."""
    if point.point is Point.CHECKPOINT and point.part:
        points = order(delivery)
        return Crash(points[points.index(Point.CHECKPOINT) - 1], point.epoch)
    return Crash(point.point, point.epoch, sinks.index(point.part) if point.part else None)


def results(summary: Summary) -> tuple[object, ...]:
    """The results of a run that must not depend on crashes and interruptions."""
    return summary.model, summary.state, summary.outputs, summary.accuracy, summary.baselines, summary.records


def receipts_of(summary: Summary) -> list[EpochReceipt]:
    """The receipts of the first attempts."""
    return [receipt for receipt in EpochReader(Path(summary.run) / "epochs").receipts() if receipt.attempt == 1]


def sinks_of(summary: Summary) -> list[str]:
    """The sinks in the order in which they are delivered to."""
    return list(summary.delivered)


_OF_STATE = frozenset({"topics", "top", "trending", "changes", "late", "ended", "unmatched"})
"""The outputs whose rows are not made of one record and with it: they depend on the records before."""


def assert_promise(
    pipeline: Pipeline, name: str, points: list[CrashPoint], golden: str, of_state: Collection[str] = ()
) -> None:
    """Run to the end after these crashes; the audit against a golden run must equal the result of `effects`.

    The rows of the outputs in `of_state` depend on state too, so those of an epoch that comes twice are other ones.
    """
    summary = pipeline.run(name)
    counts = pipeline.counts(golden)
    sinks = sinks_of(summary)
    predicted = pipeline.predicted(points, sinks)
    found = pipeline.audit(name, golden)
    assert found.records == sum(count["records"] for count in counts.values())
    assert found.trained_twice == sum(counts[epoch]["records"] for epoch in predicted.trained_twice)
    assert found.lost == sum(counts[epoch]["records"] for epoch in predicted.lost)
    for index, output in enumerate(sinks):
        if output.rpartition(".")[2] not in {*_OF_STATE, *of_state}:
            repeated, missing = predicted.rows_repeated[index], predicted.rows_missing[index]
            assert found.outputs[output].repeated == sum(counts[epoch].get(output, 0) for epoch in repeated), output
            assert found.outputs[output].missing == sum(counts[epoch].get(output, 0) for epoch in missing), output

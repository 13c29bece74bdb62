"""Millstream on Spark beside the same work written in plain PySpark, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.contender import Report, Task, run_contender
from benchmarks.figures import AtLeast, Figure, Measurement, Setting, Unmeasured, interleaved, ratio

__all__ = ["MEASUREMENTS"]


@dataclass(frozen=True)
class _Comparison:
    """`files` of `epoch` rows are enough for 10 seconds of the peer, `records` for as much of Millstream."""

    name: str
    about: str
    epoch: int
    ours: str
    peer: str
    goal: float
    files: int
    records: int

    def measure(self, setting: Setting) -> Iterator[Figure]:
        files = 6 if setting.quick else self.files
        records = 120_000 if setting.quick else self.records
        folder = setting.documents.parts(self.epoch, files)
        work = str(setting.folder / "contender")
        peer = Task(self.peer, str(folder), work)
        ours = Task(self.ours, str(setting.documents.file), work, records, self.epoch)
        right: dict[str, int] = {}

        def run(task: Task) -> Callable[[], float]:
            def rate() -> float:
                report: Report = run_contender(task)
                right[task.kind] = report.correct
                return report.rate.per_second

            return rate

        taken = interleaved(setting, {self.ours: run(ours), self.peer: run(peer)})
        if records == files * self.epoch and len(set(right.values())) > 1:
            raise Unmeasured(f"they predicted different things: of {records:,} right are {right}")
        yield ratio(self.name, taken, self.ours, self.peer, AtLeast(self.goal))


_COMPARISONS = (
    _Comparison(
        "spark_vs_plain_1k",
        "Millstream on Spark (exactly_once, defaults) at 1,000-row epochs over a plain foreachBatch with Spark's "
        "default settings at 1,000-row files: toPandas, the same hashing, model and blocks, a Parquet file of "
        "predictions a micro-batch, checkpoint on; each in a process of its own, rows a second from the first "
        "micro-batch done to the last",
        1_000,
        "millstream",
        "plain",
        1.5,
        files=60,
        records=600_000,
    ),
    _Comparison(
        "spark_vs_plain_tuned_10k",
        "the same at 10,000 rows, the peer with our session's settings and Arrow, and predictions, model and manifest "
        "synced after every micro-batch",
        10_000,
        "millstream",
        "tuned",
        0.95,
        files=80,
        records=800_000,
    ),
    _Comparison(
        "spark_vs_plain_tuned_10k_no_durability",
        "the same with nothing synced, noted or saved on either side",
        10_000,
        "millstream_without",
        "tuned_not_durable",
        0.95,
        files=80,
        records=800_000,
    ),
)

MEASUREMENTS = tuple(Measurement(one.name, (one.name,), one.about, one.measure) for one in _COMPARISONS)

"""The cost of a backfill on Spark: in the executors, over a loop by hand; of the longest task; and on the driver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.contenders.bare_backfill import run_bare
from benchmarks.kit.child import ask
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least, at_most
from benchmarks.kit.rounds import median
from millstream.config.load import Loaded, load_config
from millstream.engines.spark.shared_session import SHARED
from millstream.history.backfill import backfill
from millstream.history.folder import HistoryFolder
from millstream.history.plan import BLOCK_RECORDS

__all__ = ["MEASUREMENTS"]

_PART = 5
"""The driver's time is that of all records less that of a fifth of them, so without the start."""


def _config(folder: Path, documents: Path, records: int, of: int) -> Loaded:
    """A config over the first documents; a file with only these is written if they are not all."""
    if records < of:
        part = folder / f"first-{records}.jsonl"
        with documents.open("rb") as lines, part.open("wb") as file:
            file.writelines(line for _, line in zip(range(records), lines, strict=False))
        documents = part
    config = {
        "name": "backfill",
        "source": {"type": "files", "path": str(documents)},
        "pipeline": {"steps": [{"type": "hashed_text"}, {"type": "classify", "model": {"type": "naive_bayes"}}]},
    }
    path = folder / f"first-{records}.yaml"
    path.write_text(yaml.safe_dump(config))
    return load_config(path)


class _Taken:
    """One backfill: the CPU seconds of its tasks by process, and those of this process, the driver.

    Those of a process are by all of its tasks but the first one, which loads compiled functions.
    """

    def __init__(self, setting: Setting, loaded: Loaded, tasks: int) -> None:
        out, began = setting.fresh("features"), time.process_time()
        backfill(loaded, out, tasks=tasks)
        self.driver = time.process_time() - began
        by_process: dict[int, list[float]] = {}
        for _, note in sorted(HistoryFolder(out).done({}).items()):
            by_process.setdefault(note.process, []).append(note.cpu)
        seconds = [sum(each[1:]) * len(each) / (len(each) - 1) for each in by_process.values() if len(each) > 1]
        self.all, self.longest = sum(seconds), max(seconds)


def _measure(setting: Setting) -> Iterator[Value]:
    records = 200_000 if setting.quick else setting.documents.records
    whole = _config(setting.folder, setting.documents.file, records, setting.documents.records)
    part = _config(setting.folder, setting.documents.file, records // _PART, setting.documents.records)
    costs, scaling, driver = [], [], []
    session = SHARED.open(setting.folder / "spark.log")
    try:
        setting.say("warming up Spark")
        _Taken(setting, part, 2)
        for number in range(setting.rounds):
            folder = str(setting.fresh("bare"))
            documents = whole.config.logs[0].config.path
            bare = ask(run_bare, documents=documents, folder=folder, records=records, block=BLOCK_RECORDS)
            one, two, small = _Taken(setting, whole, 1), _Taken(setting, whole, 2), _Taken(setting, part, 2)
            costs.append(two.all / bare)
            scaling.append(one.longest / two.longest)
            driver.append((two.driver - small.driver) / (records - records // _PART) * 1e6)
            setting.say(
                f"round {number + 1}: by hand {bare:.2f} s, executors {two.all:.2f} s, longest task {two.longest:.2f} s"
            )
    finally:
        SHARED.leave(session, keep=False)
    yield median("backfill_cpu_vs_loop", costs, ".2f")
    yield median("backfill_two_tasks", scaling, ".2f")
    yield median("backfill_driver", driver, ".4f")


MEASUREMENTS = (
    Measurement(
        (
            Figure("backfill_cpu_vs_loop", "x", at_most(1.25)),
            Figure("backfill_two_tasks", "x", at_least(1.8)),
            Figure("backfill_driver", "us", at_most(0.05)),
        ),
        "`millstream backfill` of documents in JSON Lines with `hashed_text` in a Spark session that is open: the CPU "
        "time of its tasks, without the start of processes, over that of a process by hand that reads, hashes and "
        "writes the same blocks; the CPU time of one task for all blocks over that of the longer one of two; and the "
        "CPU time of the driver's Python for a record, without the start.",
        _measure,
        name="backfill",
    ),
)

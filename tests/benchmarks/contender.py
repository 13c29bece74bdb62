"""A contender in a process of its own, so that each has its own Spark: reports its steady rate as JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.steady import Rate, steady_rate

__all__ = ["Report", "Task", "run_contender"]

_LONGEST = 600.0


@dataclass(frozen=True)
class Task:
    """What a contender is to do.

    `documents` is a file for Millstream, a folder of files for plain PySpark, a broker for those that read a topic.
    """

    kind: str
    documents: str
    work: str
    records: int = 0
    epoch: int = 0
    jars: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """What came of it: the rate, and how many predictions were right."""

    rate: Rate
    correct: int


def run_contender(task: Task) -> Report:
    """Do the task in a new process; its folder `work` is made, and removed again."""
    work = Path(task.work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    program = [sys.executable, str(Path(__file__).with_name("run.py")), "--contender", json.dumps(asdict(task))]
    with (work / "stderr.txt").open("wb") as log:
        ran = subprocess.run(program, stdout=subprocess.PIPE, stderr=log, timeout=_LONGEST, check=False)
    if ran.returncode:
        tail = "\n".join((work / "stderr.txt").read_text(errors="replace").splitlines()[-15:])
        raise RuntimeError(f"{task.kind} ended with exit code {ran.returncode}:\n{tail}")
    shutil.rmtree(work)
    report = json.loads(ran.stdout.splitlines()[-1])
    return Report(Rate(**report["rate"]), report["correct"])


def contend(text: str) -> None:
    """What the new process does."""
    task = Task(**json.loads(text))
    print(json.dumps(asdict(_done(task))))


def _done(task: Task) -> Report:
    documents, work = Path(task.documents), Path(task.work)
    if task.kind in ("plain", "tuned", "tuned_not_durable"):
        from benchmarks.plain_pyspark import run_plain, run_tuned

        if task.kind == "plain":
            marks, correct = run_plain(documents, work)
        else:
            marks, correct = run_tuned(documents, work, durable=task.kind == "tuned")
        return Report(steady_rate(marks), correct)
    if task.kind.startswith("kafka"):
        from benchmarks.kafka_sources import read_by_connector, read_by_us

        if task.kind == "kafka_ours":
            marks = read_by_us(task.documents, "documents", work, task.records, task.epoch)
        else:
            marks = read_by_connector(task.documents, "documents", work, task.records, task.epoch, list(task.jars))
        return Report(steady_rate(marks), 0)
    from benchmarks.pipeline import run_pipeline
    from benchmarks.without_guarantee import WithoutGuarantee

    from millstream.engines.job import Engine
    from millstream.engines.spark.engine import SparkEngine

    engine: Engine = SparkEngine() if task.kind == "millstream" else WithoutGuarantee(SparkEngine())
    ran = run_pipeline(engine, "spark", documents, work, task.records, task.epoch)
    return Report(ran.rate, ran.correct)

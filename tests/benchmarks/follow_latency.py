"""How long a record takes from a quiet log to a reader of the sink, on Spark."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import yaml
from benchmarks.documents import document_lines
from benchmarks.figures import AtMost, Figure, Measurement, Setting
from benchmarks.millstream_process import MillstreamProcess
from benchmarks.pipeline import CLASSIFY

from millstream.config.models import EpochSize
from millstream.errors import ConfigError
from millstream.log.journal import Journal, JournalReader

__all__ = ["MEASUREMENTS"]

_FIRST = 500
"""Records that are there at the start, so that there is a model to predict with."""
_WARM_UP = 8
_LOOK = 0.002
_DEFAULT = f"{EpochSize().max_wait // 1000}ms, the default"
_ABOUT = (
    "a journal followed on Spark by the command line, max_wait {wait}: one record appended at random moments, 0.7 s "
    "apart on average; from the append's return until a reader who looks every 2 ms sees the row in the journal sink"
)


def _measure(setting: Setting, name: str, max_wait: str | None, goal: AtMost | None) -> Iterator[Figure]:
    work = setting.folder / name
    work.mkdir()
    config = {
        "name": "follow",
        "source": {"type": "journal", "path": "in"},
        "pipeline": CLASSIFY,
        "sinks": {"predictions": {"type": "journal", "path": "out"}},
        "engine": {"type": "spark", "epoch": {"max_wait": max_wait} if max_wait else {}},
    }
    (work / "follow.yaml").write_text(yaml.safe_dump(config))
    samples = _samples(setting, work, 3 if setting.quick else 60)
    median, late = statistics.median(samples), float(np.percentile(samples, 99))
    detail = f"{_spread(samples)} over {len(samples)} records, max_wait {max_wait or _DEFAULT}"
    yield Figure(f"{name}_p50", median, "ms", goal, detail)
    yield Figure(f"{name}_p99", late, "ms", None, detail)


def _samples(setting: Setting, work: Path, count: int) -> list[float]:
    random_moments = random.Random(1)
    lines = (line for block in document_lines(10_000) for line in block.splitlines())
    samples: list[float] = []
    with Journal(work / "in") as journal:
        journal.append_many(list(itertools.islice(lines, _FIRST)))
        with MillstreamProcess(work / "follow.yaml", work / "run", "--follow") as run:
            sink = run.until(partial(_opened, work / "out"), every=0.05, within=120)
            run.until(partial(_beyond, sink, _FIRST - 1), every=0.05, within=120)
            setting.say("following")
            for number, line in enumerate(itertools.islice(lines, _WARM_UP + count)):
                time.sleep(random_moments.uniform(0.4, 1.0))
                before = sink.end()
                journal.append(line)
                appended = time.monotonic()
                run.until(partial(_beyond, sink, before), every=_LOOK, within=30)
                if number >= _WARM_UP:
                    samples.append((time.monotonic() - appended) * 1000)
            sink.close()
    return samples


def _opened(folder: Path) -> JournalReader | None:
    try:
        return JournalReader(folder)
    except ConfigError:
        return None


def _beyond(sink: JournalReader, rows: int) -> int | None:
    there = sink.end()
    return there if there > rows else None


def _spread(samples: Sequence[float]) -> str:
    """The spread that matters for latencies."""
    low, high = np.percentile(samples, [10, 90])
    return f"p10 {low:.0f}, p90 {high:.0f}, most {max(samples):.0f}"


MEASUREMENTS = (
    Measurement(
        "idle_follow_latency",
        ("idle_follow_latency_p50", "idle_follow_latency_p99"),
        _ABOUT.format(wait="10ms"),
        partial(_measure, name="idle_follow_latency", max_wait="10ms", goal=AtMost(150)),
    ),
    Measurement(
        "idle_follow_latency_default",
        ("idle_follow_latency_default_p50", "idle_follow_latency_default_p99"),
        _ABOUT.format(wait=_DEFAULT),
        partial(_measure, name="idle_follow_latency_default", max_wait=None, goal=None),
    ),
)

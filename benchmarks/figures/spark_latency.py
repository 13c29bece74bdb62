"""Latency of a record and of the start on Spark."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.kit.documents import document_lines
from benchmarks.kit.followed_run import FollowedJob
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_most
from benchmarks.kit.millstream_process import MillstreamProcess
from benchmarks.kit.pipeline import CLASSIFY
from benchmarks.kit.rounds import median, repeated
from millstream.config.load import load_config
from millstream.log.contracts import OpenContext
from millstream.runs.outputs import graph_of
from millstream.runs.sinks import sink_configs
from millstream.steps.output_rows import row_schema

__all__ = ["FIRST", "MEASUREMENTS", "latencies"]

FIRST = 500
"""Records before the first measured one, so that there is a model."""
_WARM_UP = 8
_DEMO = Path(__file__).parents[2] / "configs" / "demo.yaml"


def latencies(
    setting: Setting, lines: Iterator[bytes], append: Callable[[bytes], object], wait: Callable[[int], None]
) -> list[float]:
    """Milliseconds from the end of `append` to the end of `wait` for its row, at random moments."""
    moments, samples = random.Random(1), []
    setting.say("following")
    for number, line in enumerate(itertools.islice(lines, _WARM_UP + (3 if setting.quick else 60))):
        time.sleep(moments.uniform(0.4, 1.0))
        append(line)
        appended = time.monotonic()
        wait(FIRST + number + 1)
        samples.append((time.monotonic() - appended) * 1000)
    return samples[_WARM_UP:]


def _idle(setting: Setting) -> Iterator[Value]:
    engine = {"type": "spark", "epoch": {"max_wait": "10ms"}}
    job, lines = FollowedJob(setting.folder, CLASSIFY, engine), document_lines(10_000)
    with job.input() as journal:
        journal.append_many(list(itertools.islice(lines, FIRST)))
        with job.follow() as run:
            run.wait(FIRST, every=0.05)
            samples = latencies(setting, lines, journal.append, partial(run.wait, every=0.002, within=30))
    p10, p90, p99 = np.percentile(samples, [10, 90, 99])
    detail = f"p10 {p10:.0f}, p90 {p90:.0f}"
    yield median("idle_follow_latency_p50", samples, ".0f", f"{detail}; {len(samples)} records")
    yield Value("idle_follow_latency_p99", float(p99), detail)


def _first_epoch(setting: Setting) -> Iterator[Value]:
    loaded = load_config(_DEMO)
    graph = graph_of(loaded)
    sink, schema = sink_configs(loaded.config, graph)["predictions"], row_schema(graph.outputs["predictions"])

    def seconds(number: int) -> float:
        run = setting.folder / f"run-{number}"

        def delivered() -> pa.Table | None:
            return next(sink.read(OpenContext(loaded.folder, run), "predictions", schema), None)

        with MillstreamProcess(_DEMO, run) as process:
            process.until(delivered, every=0.01, within=120)
            return time.monotonic() - process.began

    yield median("start_to_first_epoch", repeated(setting, seconds), ".1f")


MEASUREMENTS = (
    Measurement(
        (Figure("idle_follow_latency_p50", "ms", at_most(150)), Figure("idle_follow_latency_p99", "ms")),
        "A journal followed on Spark by the command line, max_wait 10ms: one record appended at random moments, 0.7 s "
        "apart on average; from the end of the append until a reader that looks every 2 ms sees the row in the journal "
        "sink. Median and 99th percentile.",
        _idle,
        name="idle_follow_latency",
    ),
    Measurement(
        (Figure("start_to_first_epoch", "s", at_most(13)),),
        "`millstream run configs/demo.yaml` in a new run directory, from the start of the process until a reader of "
        "the predictions sees the rows of the first epoch.",
        _first_epoch,
    ),
)

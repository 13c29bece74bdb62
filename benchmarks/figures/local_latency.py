"""Latency of a record, of the start and of the recovery on the local engine."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.documents import document_lines
from benchmarks.kit.followed_run import FollowedJob, FollowedRun
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_most
from benchmarks.kit.pipeline import CLASSIFY, PER_RECORD
from benchmarks.kit.rounds import median, repeated
from millstream.log.journal import Journal

__all__ = ["MEASUREMENTS"]

_SECOND = 500
"""Records per second."""
_FIRST = _WARM_UP = 500
"""Records before the first measured one: those in the journal at the start, and those appended after it."""
_LOOK = 0.0003
_DELIVERIES = ("exactly_once", "at_least_once")
_RECORDS = 2_000
_LEARNED = 20_000
"""Records that a killed run has learned."""
_LIGHT = {"use": "text_topics", "model": {"type": "lengths"}, "popularity": None}


def _latency(setting: Setting, name: str, pipeline: Mapping[str, Any]) -> Iterator[Value]:
    count = 200 if setting.quick else 4_000
    taken: dict[str, list[Sequence[float]]] = {delivery: [] for delivery in _DELIVERIES}
    for number in range(setting.rounds):
        for delivery, percentiles in taken.items():
            samples = _samples(setting.folder / f"{delivery}-{number}", pipeline, delivery, count)
            percentiles.append(np.percentile(samples, [50, 99]).tolist())
            p50, p99 = percentiles[-1]
            setting.say(f"round {number + 1} of {setting.rounds}: {delivery} p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    exactly, at_least = (np.array(taken[delivery]).T for delivery in _DELIVERIES)
    yield median(f"{name}_p50", exactly[0], ".1f", f"{count:,} records in each round")
    yield median(f"{name}_p99", exactly[1], ".1f")
    yield median(f"{name}_p99_at_least_once", at_least[1], ".1f")
    yield median(f"{name}_p99_exactly_once_cost", exactly[1] / at_least[1], ".2f")


def _samples(folder: Path, pipeline: Mapping[str, Any], delivery: str, count: int) -> Sequence[float]:
    """Milliseconds from the end of each append until the record's row can be read."""
    job = FollowedJob(folder, pipeline, {"type": "local"}, guarantee={"delivery": delivery})
    lines = list(itertools.islice(document_lines(20_000), _FIRST + _WARM_UP + count))
    with job.input() as journal:
        journal.append_many(lines[:_FIRST])
        with job.follow() as run:
            run.wait(_FIRST, every=0.05)
            return _followed(journal, run, lines[_FIRST:])[_WARM_UP:]


def _followed(journal: Journal, run: FollowedRun, lines: Sequence[bytes]) -> list[float]:
    """Append one record every 2 ms, independently of the rows; look for rows in between."""
    appended: list[float] = []
    samples: list[float] = []
    began = time.monotonic()
    while len(samples) < len(lines):
        now = time.monotonic()
        if len(appended) < len(lines) and now >= began + len(appended) / _SECOND:
            journal.append(lines[len(appended)])
            appended.append(time.monotonic())
        rows = run.rows() - _FIRST
        now = time.monotonic()
        samples += ((now - at) * 1000 for at in appended[len(samples) : rows])
        if now > began + len(lines) / _SECOND + 60:
            raise TimeoutError(f"only {rows:,} of {len(lines):,} records have a row")
        time.sleep(_LOOK)
    return samples


def _start(setting: Setting, name: str, pipeline: Mapping[str, Any]) -> Iterator[Value]:
    lines = list(document_lines(_RECORDS))

    def seconds(number: int) -> float:
        job = FollowedJob(setting.folder / str(number), pipeline, {"type": "local"})
        with job.input() as journal:
            journal.append_many(lines)
        with job.follow() as run:
            run.wait(1)
            return time.monotonic() - run.began

    yield median(name, repeated(setting, seconds), ".2f")


def _recovery(setting: Setting) -> Iterator[Value]:
    """Append records all the time, kill the run among them and start it again."""
    job = FollowedJob(setting.folder, CLASSIFY, {"type": "local"})
    lines = document_lines(_LEARNED + (setting.rounds + 1) * _RECORDS)
    with job.input() as journal:
        journal.append_many(list(itertools.islice(lines, _LEARNED)))

        def seconds(_: int) -> float:
            with job.follow() as run:
                run.wait(journal.next_index)
                for line in itertools.islice(lines, _RECORDS):
                    journal.append(line)
                run.wait(run.rows() + 1)
                killed = time.monotonic()
                run.kill()
                before = run.rows()
            journal.append(next(lines))
            with job.follow() as run:
                run.wait(before + 1)
                return time.monotonic() - killed

        yield median("local_recovery", repeated(setting, seconds), ".2f")


def _latency_of(name: str, model: str, pipeline: Mapping[str, Any]) -> Measurement:
    figures = (
        Figure(f"{name}_p50", "ms", at_most(8)),
        Figure(f"{name}_p99", "ms", at_most(25)),
        Figure(f"{name}_p99_at_least_once", "ms"),
        Figure(f"{name}_p99_exactly_once_cost", "x", at_most(1.2)),
    )
    about = (
        f"A journal followed on the local engine by the command line, {model}, defaults: one record appended every "
        "2 ms; from the end of the append until a reader that looks every 0.3 ms sees the row in the journal sink. "
        "Medians of the rounds' medians and 99th percentiles, exactly_once and at_least_once in turns."
    )
    return Measurement(figures, about, partial(_latency, name=name, pipeline=pipeline), name=name)


def _start_of(name: str, goal: float, model: str, pipeline: Mapping[str, Any]) -> Measurement:
    about = (
        f"`millstream run --follow` on the local engine, {model}: from the start of the process until a reader of the "
        "sink sees a row."
    )
    return Measurement((Figure(name, "s", at_most(goal)),), about, partial(_start, name=name, pipeline=pipeline))


MEASUREMENTS = (
    _latency_of("local_latency_river", "river_nb", PER_RECORD),
    _latency_of("local_latency_sklearn", "complement_nb at 65,536 dimensions", CLASSIFY),
    _start_of("local_start", 3, "complement_nb over hashed text", CLASSIFY),
    _start_of("local_start_light", 1.5, "a plug-in's model without scikit-learn and River", _LIGHT),
    Measurement(
        (Figure("local_recovery", "s", at_most(3)),),
        "The run of local_start, killed with SIGKILL among its records and started again at once: from the kill until "
        "a reader of the sink sees a new row.",
        _recovery,
    ),
)

"""How long a record takes on the local engine, from the log to a reader of the sink, at 500 records a second."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from benchmarks.documents import document_lines
from benchmarks.figures import AtMost, Figure, Measurement, Setting, spread
from benchmarks.millstream_process import MillstreamProcess
from benchmarks.pipeline import CLASSIFY, PER_RECORD

from millstream.errors import ConfigError
from millstream.log.journal import Journal, JournalReader

__all__ = ["MEASUREMENTS"]

_SECOND = 500
"""Records a second."""
_FIRST = 500
"""Records that are there at the start, so that there is a model to predict with."""
_WARM_UP = 500
_LOOK = 0.0003
_DELIVERIES = ("exactly_once", "at_least_once")


def _measure(setting: Setting, name: str, pipeline: Mapping[str, Any]) -> Iterator[Figure]:
    count, rounds = (200, 1) if setting.quick else (4_000, setting.rounds)
    taken: dict[str, list[np.ndarray[Any, Any]]] = {delivery: [] for delivery in _DELIVERIES}
    for number in range(rounds):
        for delivery in _DELIVERIES:
            work = setting.folder / f"{name}-{delivery}-{number}"
            work.mkdir()
            taken[delivery].append(np.percentile(_samples(work, pipeline, delivery, count), [50, 99]))
        told = ", ".join(f"{delivery} {_shown(values[-1])} ms" for delivery, values in taken.items())
        setting.say(f"round {number + 1} of {rounds}, p50 and p99: {told}")
    exactly, at_least = (np.array(taken[delivery]).T for delivery in _DELIVERIES)
    detail = f"{rounds} times {count:,} records"
    yield Figure(f"{name}_p50", _median(exactly[0]), "ms", AtMost(8), f"{spread(exactly[0], '.1f')}, {detail}")
    yield Figure(f"{name}_p99", _median(exactly[1]), "ms", AtMost(25), f"{spread(exactly[1], '.1f')}, {detail}")
    yield Figure(f"{name}_p99_at_least_once", _median(at_least[1]), "ms", None, spread(at_least[1], ".1f"))
    ratios = exactly[1] / at_least[1]
    yield Figure(f"{name}_p99_exactly_once_cost", _median(ratios), "x", AtMost(1.2), spread(ratios, ".2f"))


def _samples(work: Path, pipeline: Mapping[str, Any], delivery: str, count: int) -> Sequence[float]:
    """Milliseconds from each append's return until the record's row can be read."""
    config = {
        "name": "follow",
        "source": {"type": "journal", "path": "in"},
        "pipeline": dict(pipeline),
        "sinks": {"predictions": {"type": "journal", "path": "out"}},
        "guarantee": {"delivery": delivery},
        "engine": {"type": "local"},
    }
    (work / "follow.yaml").write_text(yaml.safe_dump(config))
    lines = list(itertools.islice((line for block in document_lines(20_000) for line in block.splitlines()), 20_000))
    with Journal(work / "in") as journal:
        journal.append_many(lines[:_FIRST])
        with MillstreamProcess(work / "follow.yaml", work / "run", "--follow") as run:
            sink = run.until(partial(_opened, work / "out"), every=0.05, within=120)
            run.until(lambda: sink.end() >= _FIRST or None, every=0.05, within=120)
            return _followed(journal, sink, lines[_FIRST : _FIRST + _WARM_UP + count])


def _followed(journal: Journal, sink: JournalReader, lines: Sequence[bytes]) -> list[float]:
    """Append one record every 2 ms, whatever comes of it; look for rows in between."""
    appended: list[float] = []
    samples: list[float] = []
    began = time.monotonic()
    while len(samples) < len(lines):
        now = time.monotonic()
        if len(appended) < len(lines) and now >= began + len(appended) / _SECOND:
            journal.append(lines[len(appended)])
            appended.append(time.monotonic())
        there = sink.end() - _FIRST
        now = time.monotonic()
        samples += ((now - at) * 1000 for at in appended[len(samples) : there])
        if now > began + len(lines) / _SECOND + 60:
            raise TimeoutError(f"of {len(lines):,} records only {there:,} have come")
        time.sleep(_LOOK)
    sink.close()
    return samples[_WARM_UP:]


def _opened(folder: Path) -> JournalReader | None:
    try:
        return JournalReader(folder)
    except ConfigError:
        return None


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def _shown(values: Iterable[float]) -> str:
    return "/".join(f"{value:.1f}" for value in values)


def _measurement(name: str, model: str, pipeline: Mapping[str, Any]) -> Measurement:
    figures = ("p50", "p99", "p99_at_least_once", "p99_exactly_once_cost")
    about = (
        f"a journal followed on the local engine by the command line, {model}, defaults: one record appended every "
        "2 ms; from the append's return until a reader who looks every 0.3 ms sees the row in the journal sink; "
        "medians of the rounds, exactly_once and at_least_once in turns"
    )
    return Measurement(
        name, tuple(f"{name}_{figure}" for figure in figures), about, partial(_measure, name=name, pipeline=pipeline)
    )


MEASUREMENTS = (
    _measurement("local_latency_river", "river_nb", PER_RECORD),
    _measurement("local_latency_sklearn", "complement_nb at 65,536 dimensions", CLASSIFY),
)

"""The local engine with two workers: their speed, and the death of one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.kit.documents import document_lines
from benchmarks.kit.followed_run import FollowedJob, FollowedRun
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least, at_most
from benchmarks.kit.pipeline import CLASSIFY, run_pipeline
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median, ratio
from millstream.engines.local.engine import LocalEngine
from millstream.log.journal import Journal
from millstream.runs.termination import descendants

__all__ = ["MEASUREMENTS"]

_EPOCH = 5_000
_EVEN = {
    "steps": [
        {"type": "map", "function": "benchmarks.contenders.stemming:stemmed"},
        {"type": "hashed_text", "dimensions": 65536},
        {"type": "classify", "model": {"type": "complement_nb", "batch_size": 8}},
    ]
}
"""The steps before the model cost as much as the model: 15 and 13 us a record. The compiled models cost less than the
transfer of a record to another process, so two workers do not help them."""
_SECOND = 500
_FIRST = 20_000
"""Records in the state when a worker dies."""


def _two(setting: Setting) -> Iterator[Value]:
    records = 4 * _EPOCH if setting.quick else 100_000

    def run(workers: int) -> Rate:
        file = setting.documents.file
        return run_pipeline(LocalEngine(), file, setting.folder, records, _EPOCH, _EVEN, workers=workers).rate

    taken = interleaved(setting, {"one": partial(run, 1), "two": partial(run, 2)}, agree=True)
    yield ratio("local_two_workers", taken, "two", "one")


def _death(setting: Setting) -> Iterator[Value]:
    """Append records all the time and kill the sequencer: the cost is the longest silence of the sink."""
    job, deaths = FollowedJob(setting.folder, CLASSIFY, {"type": "local", "workers": 2}), 1 if setting.quick else 7
    lines = list(document_lines(_FIRST + 4 * (deaths + 1) * _SECOND))
    with job.input() as journal:
        journal.append_many(lines[:_FIRST])
        with job.follow() as run:
            run.wait(_FIRST, every=0.05)
            coming = iter(lines[_FIRST:])
            _longest_silence(journal, run, coming, kill=False)  # warms up
            silences = [_longest_silence(journal, run, coming, kill=True) for _ in range(deaths)]
    yield median("local_worker_death", silences, ".2f")


def _longest_silence(journal: Journal, run: FollowedRun, lines: Iterator[bytes], *, kill: bool) -> float:
    """Append for three seconds and kill the sequencer in the first; the longest time without a new row."""
    began = last = time.monotonic()
    appended, longest, rows = 0, 0.0, run.rows()
    while (now := time.monotonic()) < began + 3:
        if now >= began + appended / _SECOND:
            journal.append(next(lines))
            appended += 1
        if kill and now > began + 0.5:
            os.kill(max(descendants(run.pid)), signal.SIGKILL)  # the newest process is the sequencer
            kill = False
        if (seen := run.rows()) > rows:
            longest, last, rows = max(longest, now - last), now, seen
        time.sleep(0.001)
    return max(longest, time.monotonic() - last)


MEASUREMENTS = (
    Measurement(
        (Figure("local_two_workers", "x", at_least(1.3)),),
        "The local engine with two workers, the features in one and the model in the other, divided by one worker: "
        f"records per second with {_EPOCH:,}-record epochs, exactly_once, file to files. A Python function that stems "
        "words costs as much as complement_nb in mini-batches of 8.",
        _two,
    ),
    Measurement(
        (Figure("local_worker_death", "s", at_most(1)),),
        "A journal followed with two workers at 500 records per second, complement_nb at 65,536 dimensions; the "
        "sequencer is killed with SIGKILL: the longest time in which a reader of the sink sees no new row.",
        _death,
    ),
)

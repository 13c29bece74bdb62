"""The local engine with worker processes: what two bring, and what the death of one costs."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import yaml
from benchmarks.documents import document_lines
from benchmarks.figures import AtLeast, AtMost, Figure, Measurement, Setting, Unmeasured, interleaved, ratio, spread
from benchmarks.millstream_process import MillstreamProcess
from benchmarks.pipeline import CLASSIFY, run_pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import ConfigError
from millstream.log.journal import Journal, JournalReader
from millstream.runs.killing import descendants

__all__ = ["MEASUREMENTS"]

_EPOCH = 5_000
_EVEN = {
    "steps": [
        {"type": "map", "function": "benchmarks.cleaning:stemmed"},
        {"type": "hashed_text", "dimensions": 65536},
        {"type": "classify", "model": {"type": "complement_nb", "block": 8}},
    ]
}
"""What comes before the model costs what the model costs: 15 and 13 us a record. The compiled models cost less than a
record's way to another process, and two workers bring them nothing."""
_SECOND = 500
_FIRST = 20_000
"""Records that there is a state of, when a worker dies."""


def _measure_two(setting: Setting) -> Iterator[Figure]:
    records = 4 * _EPOCH if setting.quick else 100_000
    file, work = setting.documents.file, setting.folder / "local-two-workers"
    work.mkdir()
    right: dict[str, int] = {}

    def with_workers(workers: int) -> float:
        ran = run_pipeline(LocalEngine(), "local", file, work, records, _EPOCH, _EVEN, workers)
        right[str(workers)] = ran.correct
        return ran.rate.per_second

    taken = interleaved(setting, {"one": lambda: with_workers(1), "two": lambda: with_workers(2)})
    if len(set(right.values())) > 1:
        raise Unmeasured(f"they predicted different things: of {records:,} right are {right}")
    yield ratio("local_two_workers", taken, "two", "one", AtLeast(1.3))


def _measure_death(setting: Setting) -> Iterator[Figure]:
    """Records come all the time; the sequencer is killed, and the longest silence of the sink is what that costs."""
    work = setting.folder / "local-worker-death"
    work.mkdir()
    config = {
        "name": "death",
        "source": {"type": "journal", "path": "in"},
        "pipeline": CLASSIFY,
        "sinks": {"predictions": {"type": "journal", "path": "out"}},
        "engine": {"type": "local", "workers": 2},
    }
    (work / "death.yaml").write_text(yaml.safe_dump(config))
    deaths = 1 if setting.quick else 7
    lines = [line for block in document_lines(_FIRST + 4 * deaths * _SECOND) for line in block.splitlines()]
    with Journal(work / "in") as journal:
        journal.append_many(lines[:_FIRST])
        with MillstreamProcess(work / "death.yaml", work / "run", "--follow") as run:
            run.until(lambda: _rows(work / "out") >= _FIRST or None, every=0.05, within=120)
            coming = iter(lines[_FIRST:])
            _longest_silence(journal, work / "out", coming, None)  # warm
            silences = [_longest_silence(journal, work / "out", coming, run.pid) for _ in range(deaths)]
    yield Figure("local_worker_death", statistics.median(silences), "s", AtMost(1), spread(silences, ".2f"))


def _longest_silence(journal: Journal, out: Path, lines: Iterator[bytes], kill: int | None) -> float:
    """Append for three seconds, let the sequencer of this run be killed in the first; how long no row came at most."""
    began = came = time.monotonic()
    appended, longest, rows = 0, 0.0, _rows(out)
    while (now := time.monotonic()) < began + 3:
        if now >= began + appended / _SECOND:
            journal.append(next(lines))
            appended += 1
        if kill is not None and now > began + 0.5:
            os.kill(max(descendants(kill)), signal.SIGKILL)  # the newest process is the sequencer
            kill = None
        if (there := _rows(out)) > rows:
            longest, came, rows = max(longest, now - came), now, there
        time.sleep(0.001)
    return max(longest, time.monotonic() - came)


def _rows(folder: Path) -> int:
    try:
        with JournalReader(folder) as reader:
            return reader.end()
    except ConfigError:  # not begun
        return 0


MEASUREMENTS = (
    Measurement(
        "local_two_workers",
        ("local_two_workers",),
        "the local engine with two workers, features in one and the model in the other, over one worker: rows a second "
        f"at {_EPOCH:,}-row epochs, exactly_once, file to files; a Python function that stems words before them costs "
        "what complement_nb in blocks of 8 costs",
        _measure_two,
    ),
    Measurement(
        "local_worker_death",
        ("local_worker_death",),
        "a journal followed with two workers at 500 records a second, complement_nb at 65,536 dimensions; the "
        "sequencer is killed with SIGKILL: the longest time in which a reader of the sink sees no new row",
        _measure_death,
    ),
)

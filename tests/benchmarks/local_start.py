"""How soon the local engine delivers: from the command line, and after a kill -9 of everything."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from benchmarks.documents import document_lines
from benchmarks.figures import AtMost, Figure, Measurement, Setting, spread
from benchmarks.millstream_process import MillstreamProcess
from benchmarks.pipeline import CLASSIFY

from millstream.errors import ConfigError
from millstream.log.journal import Journal, JournalReader

__all__ = ["MEASUREMENTS"]

_PLUGIN = Path(__file__).parents[1] / "plugin"
_RECORDS = 2_000
_KEPT = 20_000
"""Records that the run which is killed has learned from."""


def _measure_start(setting: Setting, name: str, pipeline: Mapping[str, Any], goal: float) -> Iterator[Figure]:
    work = setting.folder / name
    seconds = []
    for number in range(setting.rounds):
        config = _config(work / str(number), pipeline)
        lines = list(_lines(_RECORDS))
        with Journal(config.parent / "in") as journal:
            journal.append_many(lines)
        with _run(config) as process:
            out = process.until(partial(_opened, config.parent / "out"), every=0.005, within=120)
            process.until(partial(_more, out, 0), every=0.005, within=120)
            seconds.append(time.monotonic() - process.began)
        setting.say(f"round {number + 1} of {setting.rounds}: {seconds[-1]:.2f} s")
    yield Figure(name, statistics.median(seconds), "s", AtMost(goal), spread(seconds, ".2f"))


def _measure_recovery(setting: Setting) -> Iterator[Figure]:
    """Records keep coming; the run is killed in the midst of them and started again."""
    config = _config(setting.folder / "local-recovery", CLASSIFY)
    lines = _lines(_KEPT + (setting.rounds + 1) * _RECORDS)
    seconds = []
    with Journal(config.parent / "in") as journal:
        journal.append_many([next(lines) for _ in range(_KEPT)])
        for number in range(setting.rounds):
            with _run(config) as process:
                out = process.until(partial(_opened, config.parent / "out"), every=0.05, within=120)
                process.until(partial(_more, out, journal.next_index - 1), every=0.005, within=120)
                for line in itertools.islice(lines, _RECORDS):
                    journal.append(line)
                process.until(partial(_more, out, out.end()), every=0.005, within=120)
                killed = time.monotonic()
                process.kill()
            before = out.end()
            journal.append(next(lines))
            with _run(config) as process:
                process.until(partial(_more, out, before), every=0.005, within=120)
                seconds.append(time.monotonic() - killed)
            setting.say(f"round {number + 1} of {setting.rounds}: {seconds[-1]:.2f} s")
    yield Figure("local_recovery", statistics.median(seconds), "s", AtMost(3), spread(seconds, ".2f"))


def _config(folder: Path, pipeline: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True)
    config = {
        "name": "start",
        "source": {"type": "journal", "path": "in"},
        "pipeline": dict(pipeline),
        "sinks": {"predictions": {"type": "journal", "path": "out"}},
        "engine": {"type": "local"},
    }
    path = folder / "start.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def _run(config: Path) -> MillstreamProcess:
    return MillstreamProcess(config, config.parent / "run", "--follow", plugins=_PLUGIN)


def _lines(records: int) -> Iterator[bytes]:
    return (line for block in document_lines(records) for line in block.splitlines())


def _opened(folder: Path) -> JournalReader | None:
    try:
        return JournalReader(folder)
    except ConfigError:  # not begun
        return None


def _more(reader: JournalReader, before: int) -> bool | None:
    return reader.end() > before or None


_ABOUT = (
    "`millstream run --follow` on the local engine, {model}, from the process's start until a reader of the sink sees "
    "a row"
)
_LIGHT = {"use": "text_topics", "model": {"type": "lengths"}, "popularity": None}

MEASUREMENTS = (
    Measurement(
        "local_start",
        ("local_start",),
        _ABOUT.format(model="complement_nb over hashed text"),
        partial(_measure_start, name="local_start", pipeline=CLASSIFY, goal=3),
    ),
    Measurement(
        "local_start_light",
        ("local_start_light",),
        _ABOUT.format(model="a plug-in's model that needs neither scikit-learn nor river"),
        partial(_measure_start, name="local_start_light", pipeline=_LIGHT, goal=1.5),
    ),
    Measurement(
        "local_recovery",
        ("local_recovery",),
        "the run of `local_start` killed with SIGKILL in the midst of its records and started again at once: from the "
        "kill until a reader of the sink sees a row that was not there",
        _measure_recovery,
    ),
)

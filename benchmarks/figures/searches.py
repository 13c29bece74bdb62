"""Speed of a search: `millstream train --how search` as a user starts it, on all cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kit.measurement import Figure, Measurement, Setting, Unmeasured, Value, at_most
from benchmarks.kit.rounds import median

__all__ = ["MEASUREMENTS"]

_CONFIG = Path(__file__).parents[2] / "configs" / "search.yaml"
_RECORDS, _QUICK_RECORDS = 100_000, 10_000
_ROUNDS = 2
"""The search takes a minute, and its figures differ little from round to round on a quiet machine."""


def _search(setting: Setting) -> tuple[float, float]:
    """The seconds of one command, and the CPU seconds of the tasks that judge candidates."""
    out = setting.fresh("search")
    records = _QUICK_RECORDS if setting.quick else _RECORDS
    command = [sys.executable, "-m", "millstream", "train", f"{_CONFIG}", "--how", "search", "--out", f"{out}"]
    began = time.monotonic()
    ran = subprocess.run(
        [*command, "--set", f"source.records={records}", "--json"], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    if ran.returncode:
        raise Unmeasured(f"millstream train ended with exit code {ran.returncode}: {ran.stderr[-500:]}")
    judged = [json.loads(file.read_text())["cpu"] for file in (out / "judged").glob("*.json")]
    return seconds, sum(judged)


def _measure(setting: Setting) -> Iterator[Value]:
    cores = os.cpu_count() or 1
    taken = []
    for number in range(1 if setting.quick else _ROUNDS):
        taken.append(_search(setting))
        load = os.getloadavg()[0]
        setting.say(f"round {number + 1}: {taken[-1][0]:.1f} s, tasks {taken[-1][1]:.1f} s of CPU, load {load:.1f}")
    yield median("search_24_candidates", [seconds for seconds, _ in taken], ".1f", f"{cores} cores")
    yield median("search_24_candidates_cpu", [cpu for _, cpu in taken], ".1f")


MEASUREMENTS = (
    Measurement(
        (Figure("search_24_candidates", "s", at_most(180)), Figure("search_24_candidates_cpu", "s")),
        "`millstream train configs/search.yaml --how search` over 100,000 records, from the start of the command to "
        "its end, on all cores; and the CPU time of the tasks that judge the 24 candidates. The goal is that of two "
        "cores.",
        _measure,
        name="search",
    ),
)

"""Speed of a study: `millstream compare` as a user starts it, with one task at a time and on all cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.kit.measurement import Figure, Measurement, Setting, Unmeasured, Value, at_least, at_most
from benchmarks.kit.rounds import median

__all__ = ["MEASUREMENTS"]

_STUDIES = Path(__file__).parents[2] / "configs" / "studies"
_ROUNDS = 2
"""The study takes minutes, and its figures differ little from round to round on a quiet machine."""


@dataclass(frozen=True)
class _Compared:
    """The seconds of one command, and the CPU seconds of its trials within calls of the models."""

    seconds: float
    model_seconds: float


def _compare(setting: Setting, *options: str) -> _Compared:
    study = [f"{_STUDIES / 'quick.yaml'}", "--quick"] if setting.quick else [f"{_STUDIES / 'impact.yaml'}"]
    out = setting.fresh("study")
    command = [sys.executable, "-m", "millstream", "compare", *study, "--out", f"{out}", *options]
    began = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if ran.returncode:
        raise Unmeasured(f"millstream compare ended with exit code {ran.returncode}: {ran.stderr[-500:]}")
    return _Compared(seconds, pc.sum(pq.read_table(out / "trials.parquet", columns=["model_seconds"])[0]).as_py())


def _measure(setting: Setting) -> Iterator[Value]:
    cores = os.cpu_count() or 1
    _compare(setting, "--set", "seeds=1")  # compiles the models for this machine, once
    alone, together = [], []
    for number in range(1 if setting.quick else _ROUNDS):
        alone.append(_compare(setting, "--tasks", "1"))
        together.append(_compare(setting))
        setting.say(f"round {number + 1}: {alone[-1].seconds:.1f} s, on all cores {together[-1].seconds:.1f} s")
    seconds = [compared.seconds for compared in together]
    ratios = [one.seconds / all_cores for one, all_cores in zip(alone, seconds, strict=True)]
    shares = [compared.model_seconds / cores / compared.seconds for compared in together]
    yield median("study_impact", seconds, ".1f", f"{cores} cores")
    yield median("study_impact_speedup", ratios, ".2f")
    yield median("study_kernel_share", shares, ".2f")


MEASUREMENTS = (
    Measurement(
        (
            Figure("study_impact", "s", at_most(600)),
            Figure("study_impact_speedup", "x", at_least(1.8)),
            Figure("study_kernel_share", "of the cores' time", at_least(0.8)),
        ),
        "`millstream compare configs/studies/impact.yaml`, from the start of the command to its end, on all cores; "
        "its seconds with --tasks 1 over these; and the part of all cores' time within calls of the models, by the "
        "column `model_seconds`. The goals are those of two cores.",
        _measure,
    ),
)

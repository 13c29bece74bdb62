"""Speed of the simulator."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kit.measurement import Figure, Measurement, Setting, Unmeasured, Value, at_least
from benchmarks.kit.rounds import median, repeated
from millstream.config.load import load_config
from millstream.engines.simulated.parallel_seeds import outcomes
from millstream.engines.simulated.world.logs import recorded
from millstream.log.contracts import OpenContext

__all__ = ["MEASUREMENTS"]

_DEMO = Path(__file__).parents[2] / "configs" / "demo.yaml"
_SCHEDULES, _RECORDS = 500, 300


def _measure(setting: Setting) -> Iterator[Value]:
    loaded = load_config(_DEMO)
    source = loaded.config.logs[0]
    records = recorded({source.name: source.config.open(OpenContext(loaded.folder, setting.folder))}, _RECORDS)
    schedules = 16 if setting.quick else _SCHEDULES

    def per_minute(number: int) -> float:
        seeds = range(number * schedules, (number + 1) * schedules)
        began = time.monotonic()
        found = outcomes(loaded.config, records, seeds, os.cpu_count() or 1)
        wrong = [outcome.seed for outcome in found if outcome.wrong]
        if wrong:
            raise Unmeasured(f"schedules of these seeds break their promise: {wrong}")
        return 60 * schedules / (time.monotonic() - began)

    yield median("simulated_schedules", repeated(setting, per_minute), ",.0f")


MEASUREMENTS = (
    Measurement(
        (Figure("simulated_schedules", "1/min", at_least(1000)),),
        f"Schedules of the demo's first {_RECORDS} records per minute, on all cores, each checked against its promise; "
        "the start of the processes included.",
        _measure,
    ),
)

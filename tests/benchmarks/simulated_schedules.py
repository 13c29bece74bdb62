"""How many schedules the simulator tries in a minute."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import AtLeast, Figure, Measurement, Setting, Unmeasured, spread

from millstream.config.load import load_config
from millstream.engines.simulated.run.parallel_seeds import outcomes
from millstream.engines.simulated.world.logs import recorded
from millstream.log.contracts import Place

__all__ = ["MEASUREMENTS"]

_DEMO = Path(__file__).parents[2] / "configs/demo.yaml"
_SCHEDULES, _RECORDS = 500, 300


def _measure(setting: Setting) -> Iterator[Figure]:
    loaded = load_config(str(_DEMO), [])
    source = loaded.config.logs[0]
    records = recorded({source.name: source.config.open(Place(loaded.base, setting.folder))}, _RECORDS)
    schedules = 16 if setting.quick else _SCHEDULES
    rates = []
    for number in range(setting.rounds):
        seeds = range(number * schedules, (number + 1) * schedules)
        began = time.monotonic()
        wrong = [
            outcome.seed for outcome in outcomes(loaded.config, records, seeds, os.cpu_count() or 1) if outcome.wrong
        ]
        rates.append(60 * schedules / (time.monotonic() - began))
        if wrong:
            raise Unmeasured(f"schedules of these seeds differ from what is promised: {wrong}")
        setting.say(f"round {number + 1} of {setting.rounds}: {rates[-1]:,.0f} a minute")
    yield Figure("simulated_schedules", statistics.median(rates), "1/min", AtLeast(1000), spread(rates, ",.0f"))


MEASUREMENTS = (
    Measurement(
        "simulated_schedules",
        ("simulated_schedules",),
        f"schedules of the demo's first {_RECORDS} records in a minute, on all cores, each held against its promise; "
        "their processes' start included",
        _measure,
    ),
)

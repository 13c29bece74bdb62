"""How long it takes from the command line to the first delivered epoch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from benchmarks.figures import AtMost, Figure, Measurement, Setting, spread
from benchmarks.millstream_process import MillstreamProcess

from millstream.config.load import load_config
from millstream.log.contracts import Place
from millstream.runs.outputs import graph_of
from millstream.runs.sinks import sink_configs
from millstream.steps.output_rows import row_schema

__all__ = ["MEASUREMENTS"]

_DEMO = Path(__file__).parents[2] / "configs" / "demo.yaml"


def _measure(setting: Setting) -> Iterator[Figure]:
    loaded = load_config(_DEMO)
    graph = graph_of(loaded)
    sink, schema = sink_configs(loaded.config, graph)["predictions"], row_schema(graph.outputs["predictions"])
    work = setting.folder / "first-epoch"
    work.mkdir()
    seconds = []
    for number in range(setting.rounds):
        run = work / f"run-{number}"

        def delivered(run: Path = run) -> pa.Table | None:
            return next(sink.read(Place(loaded.base, run), "predictions", schema), None)

        with MillstreamProcess(_DEMO, run) as process:
            process.until(delivered, every=0.01, within=120)
            seconds.append(time.monotonic() - process.began)
        setting.say(f"round {number + 1} of {setting.rounds}: {seconds[-1]:.1f} s")
    yield Figure("start_to_first_epoch", statistics.median(seconds), "s", AtMost(13), spread(seconds, ".1f"))


MEASUREMENTS = (
    Measurement(
        "start_to_first_epoch",
        ("start_to_first_epoch",),
        "`millstream run configs/demo.yaml` in a new run directory, from the process's start until a reader of the "
        "predictions sees the first epoch's rows",
        _measure,
    ),
)

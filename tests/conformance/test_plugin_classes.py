"""Plug-ins that a config names by their class have the same results on every engine, also after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.engines import Engines, marks_of
from support.pipelines import Pipeline, results

from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point

CLASSES = "support.plugin_classes"


@pytest.mark.parametrize(
    "engine_name", [pytest.param(name, marks=marks_of(name)) for name in ("local", "local-3", "spark")], scope="session"
)
def test_classes_of_a_module_run_in_other_processes_too(tmp_path: Path, engines: Engines, engine_name: str) -> None:
    pipeline = Pipeline(tmp_path, engines["local"], epoch_records=20)
    pipeline.source = {"type": f"{CLASSES}:Letters", "records": 200}
    pipeline.steps = [
        {"type": f"{CLASSES}:Upper"},
        {"type": "classify", "model": {"type": f"{CLASSES}:LengthModel", "batch_size": 8}},
    ]
    pipeline.sinks = {"predictions": {"type": f"{CLASSES}:RowFile", "path": "{run}.rows"}}
    golden = pipeline.run("golden")
    pipeline.engine, pipeline.engine_name, pipeline.placement = engines[engine_name], engine_name, {"Upper": "worker"}
    pipeline.crash("other", CrashPoint(Point.DELIVER, 4))
    assert results(pipeline.run("other")) == results(golden)
    audit = pipeline.audit("other", "golden")
    assert {output: found.kind for output, found in audit.outputs.items()} == dict.fromkeys(
        ("rejects", "predictions"), "precise"
    )

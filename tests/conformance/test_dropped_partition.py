"""A filter that drops every record of one partition: time goes on, and every engine makes the same windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.documents import write_documents
from support.engines import on_engines
from support.pipelines import Pipeline, results

from millstream.engines.job import Engine
from millstream.engines.local.engine import LocalEngine

STEPS: list[dict[str, Any]] = [
    {"type": "filter", "name": "kept", "function": "support.user_functions:not_dropped", "rest": True},
    {"type": "popularity", "of": "label", "window": {"type": "tumbling", "size": "10m"}},
]


@on_engines("simulated", "local", "local-3", "spark")
def test_windows_close_although_a_whole_partition_is_dropped(tmp_path: Path, engine: Engine, engine_name: str) -> None:
    write_documents(tmp_path / "documents")
    second = tmp_path / "documents" / "part1.jsonl"
    lines = [json.loads(line) for line in second.read_text().splitlines() if line.endswith("}")]
    second.write_text("".join(json.dumps({**line, "text": "dropped"}) + "\n" for line in lines))
    source = {"type": "files", "path": "documents", "ends": True}
    pipeline = Pipeline(tmp_path, LocalEngine(), steps=STEPS, source=source, sinks={}, placement={})
    golden = pipeline.run("golden")
    assert golden.delivered["rest"] == len(lines)
    assert golden.delivered["topics"] > 10
    pipeline.engine, pipeline.engine_name = engine, engine_name
    assert results(pipeline.run("again")) == results(golden)

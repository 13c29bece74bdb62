"""State by key survives what all state survives, wherever it is kept, and is the same on every engine."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conformance.harness import EPOCHS, Pipeline, results, write_documents

from millstream.engines.job import Engine
from millstream.engines.local.engine import LocalEngine
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.runs.summary import Summary

FIELDS = {"text": "text", "label": "label", "time": "time", "author": "author"}
SINKS = {"predictions": {"type": "files", "format": "jsonl"}}


def sign_documents(folder: Path, seed: int = 5) -> None:
    """Give the documents authors, some of whom write much; a few have none."""
    dice = random.Random(seed)
    names = ["ann", "bob", "cléo", *(f"author {number}" for number in range(30)), None]
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().splitlines()
        signed = [
            json.dumps(json.loads(line) | {"author": names[int(dice.random() ** 3 * len(names))]})
            if line.endswith("}")
            else line
            for line in lines
        ]
        path.write_text("".join(line + "\n" for line in signed))


def keyed(
    folder: Path, engine: Engine, engine_name: str = "local", store: str = "memory", save_every: int = 1
) -> Pipeline:
    follow = {"key": "author", "function": "conformance.followed:follow", "adds": ["before"], "store": store}
    steps: list[dict[str, Any]] = [
        {"type": "per_key", **follow},
        {"type": "hashed_text", "dimensions": 256},
        {"type": "classify", "model": {"type": "complement_nb", "block": 16}},
    ]
    source, sinks = {"fields": FIELDS}, dict(SINKS)
    return Pipeline(
        folder,
        engine,
        steps=steps,
        source=source,
        sinks=sinks,
        engine_name=engine_name,
        placement={},
        save_every=save_every,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keyed")
    write_documents(made / "documents")
    sign_documents(made / "documents")
    return made


@pytest.fixture(scope="module")
def golden(folder: Path) -> Summary:
    summary = keyed(folder, LocalEngine()).run("golden")
    assert summary.epochs == EPOCHS and summary.delivered["rejects"] > 1  # the broken line, and documents of nobody
    return summary


@pytest.mark.parametrize(("store", "save_every"), [("memory", 1), ("memory", 4), ("rocksdb", 1)])
@pytest.mark.parametrize("point", Point, ids=str)
def test_a_crash_cannot_be_told_from_none(
    folder: Path, golden: Summary, point: Point, store: str, save_every: int
) -> None:
    pipeline = keyed(folder, LocalEngine(), store=store, save_every=save_every)
    name = f"crashed-{point}-{store}-{save_every}"
    pipeline.crash(name, CrashPoint(point, 5))
    assert results(pipeline.run(name)) == results(golden)


def test_a_crash_cannot_be_told_from_none_on_any_engine(
    folder: Path, golden: Summary, engine: Engine, engine_name: str
) -> None:
    pipeline = keyed(folder, engine, engine_name)
    name = f"crashed-{engine_name}"
    pipeline.crash(name, CrashPoint(Point.SAVE, 2))
    pipeline.crash(name, CrashPoint(Point.DELIVER, 5))
    assert results(pipeline.run(name)) == results(golden)


def test_what_began_in_memory_goes_on_in_rocksdb(folder: Path, golden: Summary) -> None:
    keyed(folder, LocalEngine()).crash("moved", CrashPoint(Point.SAVE, 5))
    assert results(keyed(folder, LocalEngine(), store="rocksdb").run("moved")) == results(golden)


@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_a_replay_on_any_engine_comes_to_the_same(
    folder: Path, golden: Summary, engine: Engine, engine_name: str, store: str
) -> None:
    replayed = keyed(folder, engine, engine_name, store).run(f"replayed-{engine_name}-{store}", replay=Path(golden.run))
    assert results(replayed) == results(golden)

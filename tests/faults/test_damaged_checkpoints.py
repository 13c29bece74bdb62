"""A damaged newest checkpoint: the error names an older one that is whole, and with that one nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.documents import EPOCH_RECORDS, write_documents
from support.pipelines import Pipeline, results

from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredCheckpoint
from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import EpochReader
from millstream.runs.directory import RunDirectory
from millstream.runs.savepoint import make_savepoint

ADVICE = re.compile(r"continue from checkpoint (\d+) \(epoch (\d+)\), which is whole: move (.+) to another folder")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine(), model={"type": "sgd", "batch_size": 16})


def manifests(pipeline: Pipeline) -> list[Path]:
    return sorted((pipeline.folder / "runs/run/checkpoints").glob("*.json"))


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)


def alter_manifest(pipeline: Pipeline) -> Path:
    alter(manifests(pipeline)[-1])
    return manifests(pipeline)[-1]


def newest_layer(pipeline: Pipeline) -> Path:
    return max((pipeline.folder / "runs/run/layers").glob("*.layer"))


def alter_layer(pipeline: Pipeline) -> Path:
    alter(newest_layer(pipeline))
    return newest_layer(pipeline)


def remove_layer(pipeline: Pipeline) -> Path:
    layer = newest_layer(pipeline)
    layer.unlink()
    return layer


def follow_advice(pipeline: Pipeline, message: str) -> tuple[int, int]:
    """Move the files away that the error names; return the number and the epoch of the checkpoint that it names."""
    advice = ADVICE.search(message)
    assert advice is not None, message
    for path in map(Path, advice[3].split(" and ")):
        path.rename(pipeline.folder / path.name)
    return int(advice[1]), int(advice[2])


@pytest.mark.parametrize("engine_name", ["local", "local-3"])
@pytest.mark.parametrize("damage", [alter_manifest, alter_layer, remove_layer])
def test_a_run_continues_from_the_older_checkpoint_that_the_error_names(
    pipeline: Pipeline, damage: Callable[[Pipeline], Path], engine_name: str
) -> None:
    golden = pipeline.run("golden")
    pipeline.engine_name = engine_name
    pipeline.run("run", records=2 * EPOCH_RECORDS)
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 4))
    older, damaged = manifests(pipeline)[-2], damage(pipeline)
    with pytest.raises(AlteredCheckpoint, match=re.escape(f"{damaged} ")) as refused:
        pipeline.run("run")
    number, epoch = follow_advice(pipeline, str(refused.value))
    assert number == int(older.stem) and 1 <= epoch < 4
    pipeline.crash("run", CrashPoint(Point.DELIVER, 6))
    assert results(pipeline.run("run")) == results(golden)
    audit = pipeline.audit("run", "golden")
    assert (audit.state, audit.output) == (OutputClass.PRECISE, OutputClass.PRECISE)


def test_every_damaged_checkpoint_is_named(pipeline: Pipeline) -> None:
    golden = pipeline.run("golden")
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 4))
    for manifest in manifests(pipeline)[-2:]:
        alter(manifest)
    with pytest.raises(AlteredCheckpoint) as refused:
        pipeline.run("run")
    assert follow_advice(pipeline, str(refused.value)) == (2, 2)
    assert results(pipeline.run("run")) == results(golden)


def test_without_a_whole_checkpoint_the_advice_is_to_start_over(pipeline: Pipeline) -> None:
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 4))
    for manifest in manifests(pipeline):
        alter(manifest)
    with pytest.raises(AlteredCheckpoint, match=r"was altered: its content [^;]*; start over with --fresh$"):
        pipeline.run("run")


def test_a_checkpoint_from_before_the_base_is_not_named(pipeline: Pipeline) -> None:
    pipeline.keep = "1us"
    pipeline.run("run", records=EPOCH_RECORDS)
    first = manifests(pipeline)[0]
    make_savepoint(RunDirectory(pipeline.folder / "runs/run"), "first")
    for _ in range(3):
        pipeline.run("run", records=EPOCH_RECORDS)
    assert EpochReader(pipeline.folder / "runs/run/epochs").base.epoch > 0
    for manifest in manifests(pipeline):
        if manifest != first:
            alter(manifest)
    with pytest.raises(AlteredCheckpoint, match=r"; start over with --fresh$"):
        pipeline.run("run")


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_without_exactly_once_an_older_checkpoint_is_neither_named_nor_used(
    pipeline: Pipeline, delivery: Delivery
) -> None:
    pipeline.delivery = delivery
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 4))
    alter(newest := manifests(pipeline)[-1])
    with pytest.raises(AlteredCheckpoint, match=r"; start over with --fresh$"):
        pipeline.run("run")
    newest.unlink()
    with pytest.raises(AlteredCheckpoint, match=rf"{newest.name} is gone, and {delivery} needs the newest checkpoint"):
        pipeline.run("run")

"""Averaged training: tasks learn the blocks of a history apart from each other, and one task adds what they learned.

For a model whose state adds up, the sum is the state of a run, bit for bit. Other models are refused.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.errors import ConfigError
from millstream.history.feature_files import feature_files, read_features
from millstream.history.features import Progress
from millstream.history.folder import HistoryFolder
from millstream.history.order import in_stream_order
from millstream.history.setup import Opened
from millstream.history.spark_tasks import opened_setup, plan_of
from millstream.history.training_job import Training
from millstream.log.journal.durability import make_folder, write_whole
from millstream.records import OFFSET, PATH, RANK
from millstream.state.model_version import ModelVersion
from millstream.steps.nodes import Node

__all__ = ["check", "learn"]


def check(node: Node) -> None:
    """Refuse a model whose state does not add up."""
    if not getattr(node.step, "adds_up", False):
        message = (
            f"the state of the model of step {node.name!r} does not add up over the records; averaged training takes "
            "naive_bayes without `half_life` and with `batch_size: 1`: train with `--how sequential`"
        )
        raise ConfigError(message)


def learn(training: Training) -> Mapping[str, Any]:
    """Number the labels, learn each block in a task, and add what the blocks have learned."""
    folder, blocks = training.work, range(len(training.plan.blocks))
    setup = training.setup.text()
    make_folder(_labels(folder, 0).parent)
    _run(training, "labels", [str(n) for n in blocks], functools.partial(_find_labels, setup), _labels)
    found = [json.loads(_labels(folder, number).read_bytes()) for number in blocks]
    labels = list(dict.fromkeys(name for each in found for name in each["labels"]))
    write_whole(_all_labels(folder), json.dumps(labels, ensure_ascii=False))
    _run(training, "learned", [str(n) for n in blocks], functools.partial(_learn_blocks, setup), _part_facts)
    steps = json.dumps(training.steps)
    training.spark.run(functools.partial(_add_all, setup, steps, training.out.absolute()), [""])
    return {"learned": sum(each["records"] for each in found), "labelled": sum(each["labelled"] for each in found)}


def _run(training: Training, what: str, blocks: Sequence[str], function: Any, file: Any) -> None:
    """Call a function on the blocks whose files are missing, with progress."""
    sizes = [block.size for block in training.plan.blocks]

    def done() -> list[int]:
        return [number for number in range(len(blocks)) if file(training.work, number).exists()]

    before = set(done())

    def report() -> None:
        there = done()
        records = sum(sizes[number] for number in there)
        training.watch(Progress(what, len(there), len(blocks), len(before), records, "blocks"))

    training.spark.run(function, [each for each in blocks if int(each) not in before], report)


def _find_labels(setup: str, partition: Iterable[list[str]]) -> None:
    """Store the labels of blocks in the order of their first appearance, in a process of Spark."""
    for blocks in partition:
        with opened_setup(setup) as opened:
            for number in map(int, blocks):
                label = opened.way.model.config.label
                records = in_stream_order(_read(opened, number, [*_position(opened), label]))
                names = records[label].cast(pa.string()).drop_null()
                facts = {"labels": names.unique().to_pylist(), "records": records.num_rows, "labelled": len(names)}
                write_whole(_labels(opened.folder, number), json.dumps(facts, ensure_ascii=False))


def _learn_blocks(setup: str, partition: Iterable[list[str]]) -> None:
    """Store what blocks add to the state, in a process of Spark."""
    for blocks in partition:
        with opened_setup(setup) as opened:
            labels = json.loads(_all_labels(opened.folder).read_bytes())
            node = opened.way.model
            for number in map(int, blocks):
                schema = opened.way.records
                records = in_stream_order(_read(opened, number, schema.names)).select(schema.names).cast(schema)
                part: Any = node.step
                state = part.part(records, labels)
                ModelVersion(node.name, state, (), {}, "").save(_part(opened.folder, number))


def _add_all(setup: str, steps: str, out: Path, partition: Iterable[list[str]]) -> None:
    """Add all parts and write the version, in a process of Spark."""
    for _ in partition:
        with opened_setup(setup) as opened:
            plan = plan_of(opened.folder.path)
            node = opened.way.model
            parts = [ModelVersion.load(_part(opened.folder, number)).state for number in range(len(plan.blocks))]
            step: Any = node.step
            step.restore({})
            step.add(parts, json.loads(_all_labels(opened.folder).read_bytes()))
            configs = tuple(json.loads(steps))
            ModelVersion(node.name, step.save(), configs, plan.trained(), plan.cuts).save(out)


def _read(opened: Opened, block: int, columns: list[str]) -> pa.Table:
    return read_features(feature_files(opened.folder, block), columns)


def _position(opened: Opened) -> list[str]:
    """The columns of a record's position."""
    return [name for name in opened.way.records.names if name in (RANK, OFFSET, PATH)]


def _labels(folder: HistoryFolder, block: int) -> Path:
    return folder.learned / "labels" / f"{block:06d}.json"


def _all_labels(folder: HistoryFolder) -> Path:
    return folder.learned / "labels" / "all.json"


def _part(folder: HistoryFolder, block: int) -> Path:
    return folder.learned / "parts" / f"{block:06d}"


def _part_facts(folder: HistoryFolder, block: int) -> Path:
    return _part(folder, block) / "version.json"

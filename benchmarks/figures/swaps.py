"""Swaps of models: the epochs with which a version enters a shadow, and with which the shadow becomes the champion."""

from __future__ import annotations

import functools
import gc
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_most
from benchmarks.kit.rounds import median
from millstream.config.load import read_config
from millstream.log.epochs import Added, Epoch, Event, NewModel, PartitionName, Swap
from millstream.state.model_version import ModelVersion
from millstream.state.stored_states import States
from millstream.state.version_store import VersionStore
from millstream.steps.graph import Graph, build_graph
from millstream.steps.processor import EpochProcessor

__all__ = ["MEASUREMENTS"]

_DIMENSIONS, _QUICK_DIMENSIONS, _CLASSES = 1 << 18, 1 << 12, 20
_EPOCH, _EPOCHS, _ENTERS, _SWAPS = 1_000, 16, 4, 10
_MODELS: Mapping[str, Mapping[str, Any]] = {
    "multinomial_nb": {"type": "multinomial_nb"},
    "sgd": {"type": "sgd", "batch_size": 64},
}


@functools.cache
def _records(number: int) -> pa.Table:
    """The records of an epoch: texts of ten words of 100,000, with a label of each of twenty classes."""
    dice = np.random.default_rng(number)
    words = dice.integers(0, 100_000, (_EPOCH, 10))
    offsets = np.arange(number * _EPOCH, (number + 1) * _EPOCH)
    return pa.table(
        {
            "_rank": np.zeros(_EPOCH, np.int32),
            "_offset": offsets,
            "_time": offsets * 1_000_000,
            "_reject": pa.nulls(_EPOCH, pa.string()),
            "text": [" ".join(f"word{word}" for word in row) for row in words.tolist()],
            "label": [f"class {label}" for label in dice.permutation(np.arange(_EPOCH) % _CLASSES)],
        }
    )


def _graph(setting: Setting, model: Mapping[str, Any]) -> Graph:
    dimensions = _QUICK_DIMENSIONS if setting.quick else _DIMENSIONS
    steps = [
        {"type": "hashed_text", "name": "features", "dimensions": dimensions},
        {"type": "classify", "name": "label", "model": dict(model), "shadow": {"from": "models:/news@challenger"}},
    ]
    source = {"type": "files", "path": "none.jsonl"}
    content = {"name": "bench", "source": source, "pipeline": {"steps": steps}}
    config = read_config(content, setting.folder, "bench.yaml").config
    return build_graph(config.steps, ["text", "label"], config.source_times)


def _version(setting: Setting, model: Mapping[str, Any]) -> ModelVersion:
    """A version that has learned some records, so that all of its rows may differ from zero."""
    processor = EpochProcessor(graph := _graph(setting, model))
    processor.restore({}, [])
    for number in range(3):
        added = (Added(PartitionName("source", "0", 0)),) if number == 0 else ()
        processor.process(Epoch(number, {}, added, 10**16), _records(number))
    return ModelVersion("label", graph.node("label").step.save(), ({"model": dict(model)},), {}, "")


def _seconds(setting: Setting, model: Mapping[str, Any], version: ModelVersion, *, from_disk: bool) -> list[float]:
    """The time of each epoch with the snapshot of its state for a checkpoint, which the epoch after it waits for."""
    store = VersionStore(setting.fresh("models"))
    digest = store.put(version)
    if from_disk:
        store = VersionStore(store.folder)
    processor = EpochProcessor(_graph(setting, model), versions=store)
    processor.restore({}, [])
    events: dict[int, Event] = {
        0: Added(PartitionName("source", "0", 0)),
        _ENTERS: NewModel("label_shadow", "models:/news/1", digest, {}),
        _SWAPS: Swap("label", "models:/news/1"),
    }
    seconds, held = [], list[States]()
    for number in range(_EPOCHS):
        records = _records(number)
        event = events.get(number)
        gc.collect()
        began = time.process_time()
        processor.process(Epoch(number, {}, () if event is None else (event,), 10**16), records)
        held.append(processor.save())
        seconds.append(time.process_time() - began)
        del held[:-1]  # the checkpoint in the making holds the last state
    return seconds


def _take(setting: Setting) -> Iterator[Value]:
    versions = {name: _version(setting, model) for name, model in _MODELS.items()}

    def longest(epoch: int, end: int, models: list[list[float]]) -> float:
        """The time of an epoch less the median of those between it and `end`, in ms; the greatest of all models."""
        return max(1000 * (each[epoch] - statistics.median(each[epoch + 1 : end])) for each in models)

    def taken(*, from_disk: bool) -> list[list[list[float]]]:
        def once(_: int) -> list[list[float]]:
            return [
                _seconds(setting, _MODELS[name], version, from_disk=from_disk) for name, version in versions.items()
            ]

        return [once(number) for number in range(setting.rounds)]

    memory, disk = taken(from_disk=False), taken(from_disk=True)
    yield median("swap", [longest(_SWAPS, _EPOCHS, each) for each in memory], ".1f")
    yield median("shadow_enters", [longest(_ENTERS, _SWAPS, each) for each in memory], ".1f")
    yield median("shadow_enters_from_disk", [longest(_ENTERS, _SWAPS, each) for each in disk], ".1f")


MEASUREMENTS = (
    Measurement(
        (
            Figure("swap", "ms", at_most(100)),
            Figure("shadow_enters", "ms"),
            Figure("shadow_enters_from_disk", "ms"),
        ),
        f"A model of {_DIMENSIONS:,} dimensions and {_CLASSES} classes, `multinomial_nb` and `sgd`, in epochs of "
        f"{_EPOCH:,} records: the longest epoch with a swap, less the median of the epochs after it, in the time of "
        "the processor; each with the snapshot of its state for a checkpoint. `shadow_enters`: the same for the epoch "
        "with which a version enters that the store has in memory; `_from_disk`: one that it reads, as after a crash.",
        _take,
    ),
)

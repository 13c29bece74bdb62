"""Checkpoints of a large model and of state by key; the memory of state by key and the time of its records."""

from __future__ import annotations

import random
import resource
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks.kit.child import ask
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_most
from benchmarks.kit.rounds import median, repeated
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import finish
from millstream.state.checkpoints import CheckpointReader, CheckpointStore
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.state.layer_writer import LayerWriter
from millstream.steps.contracts import Step
from millstream.steps.per_key import PerKey
from millstream_models.hashed_text import HashedText
from millstream_models.online.learner import Learner
from millstream_models.online.naive_bayes import NaiveBayes

__all__ = ["MEASUREMENTS", "filled"]

_CLASSES = 20
_RECORDS, _WORDS = 1_000, 35
_VOCABULARY, _ZIPF = 100_000, 1.1
"""Word frequencies of n^-1.1: 8,000 different words in 1,000 texts, somewhat more than news have."""
_KEYS_CHANGED = 1_000
_BATCH = 20_000
_AT_ONCE = 4_096

Store = Literal["memory", "rocksdb"]


@dataclass
class _CheckpointCosts:
    """Milliseconds until the pipeline may continue and until the checkpoint is durable, and bytes, by checkpoint."""

    waited: list[float] = field(default_factory=list)
    durable: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def take(self, run: Path, epochs: int, change: Callable[[], object], save: Callable[[], Any]) -> None:
        store = CheckpointStore(run, {})
        store.begin()
        writer = LayerWriter(store.layers)
        _write(store, writer, 0, save())
        for epoch in range(1, epochs + 1):
            change()
            began = time.perf_counter()
            state = save()
            self.waited.append((time.perf_counter() - began) * 1e3)
            files = _write(store, writer, epoch, state)
            self.durable.append((time.perf_counter() - began) * 1e3)
            self.sizes.append(sum(path.stat().st_size for path in files))
            finish(store.thin())


def _write(store: CheckpointStore, writer: LayerWriter, epoch: int, state: Any) -> tuple[Path, ...]:
    """Write a checkpoint and return its files: a layer and a manifest."""
    layer = store.next_layer()
    sections = finish(writer.write(layer, {"step": state}))
    checkpoint = finish(store.write(epoch, AppliedEpochs([[0, epoch + 1]]), sections))
    store.counts(checkpoint)
    run = store.layers.folder.parent
    return run / "layers" / f"{layer}.layer", run / "checkpoints" / checkpoint.name


def _model(setting: Setting) -> Iterator[Value]:
    dimensions, epochs = (1 << 12, 20) if setting.quick else (1 << 18, 200)
    config = NaiveBayes(features=HashedText(dimensions=dimensions))
    model: Learner = config.build(pa.schema([("text", pa.string())]))
    random_numbers = np.random.default_rng(1)
    shares = 1 / np.arange(1, _VOCABULARY + 1) ** _ZIPF
    edges = np.cumsum(shares / shares.sum())

    def learn() -> None:
        drawn = np.searchsorted(edges, random_numbers.random((_RECORDS, _WORDS)))
        texts = [" ".join(f"w{word}" for word in text) for text in drawn.tolist()]
        model.predict_then_learn(model.prepare(pa.array(texts)), np.arange(_RECORDS) % _CLASSES, 0)

    learn()
    checkpoints = _CheckpointCosts()
    checkpoints.take(setting.folder, epochs, learn, model.save)
    yield median("dirty_row_checkpoint_wait", checkpoints.waited, ".2f")
    yield median("dirty_row_checkpoint", checkpoints.durable, ".1f", "fsync included")


def _keyed(setting: Setting) -> Iterator[Value]:
    keys, epochs = (20_000, 20) if setting.quick else (1_000_000, 200)
    dice, store, checkpoints = random.Random(1), KeyedStore(), _CheckpointCosts()
    for number in range(keys):
        store.put(_key(number), _state(number))

    def change() -> None:
        for _ in range(_KEYS_CHANGED):
            store.put(_key(dice.randrange(keys)), _state(len(checkpoints.sizes)))

    checkpoints.take(setting.folder, epochs, change, store.snapshot)
    yield median("keyed_checkpoint", checkpoints.durable, ".1f", "fsync included")
    yield median("keyed_checkpoint_bytes", checkpoints.sizes, ",.0f")
    yield median("keyed_restore", repeated(setting, lambda _: _restoring(setting.folder)), ".2f")


def _restoring(folder: Path) -> float:
    began = time.perf_counter()
    reader = CheckpointReader(folder, sys.maxsize)
    newest = reader.newest()
    state = reader.states(newest)["step"] if newest is not None else {}
    if not isinstance(state, KeyedSnapshot):
        raise RuntimeError("the checkpoint has no state by key")
    KeyedStore().restore(state)
    return time.perf_counter() - began


def _stores(setting: Setting) -> Iterator[Value]:
    keys = 50_000 if setting.quick else 6_000_000
    stores: tuple[Store, ...] = ("memory", "rocksdb")
    for store in stores:
        megabytes, microseconds = ask(filled, one_core=False, store=store, keys=keys)
        yield Value(f"keyed_{store}", megabytes, f"{keys:,} keys")
        yield Value(f"keyed_{store}_record", microseconds, "CPU; the function's own time included")


def filled(store: Store, keys: int) -> tuple[float, float]:
    """The memory of so many keys in this process in MB, and the microseconds of a record."""
    rules = sys.modules["rules"] = types.ModuleType("rules")
    rules.__dict__["follow"] = _follow
    step: Step = PerKey(key="author", function="rules:follow", adds=("before",), store=store).build(_records([]).schema)
    before, dice = _resident(), random.Random(2)
    step.restore(_Made(keys))
    megabytes, taken = _resident() - before, []
    for _ in range(5):
        records = _records([_key(dice.randrange(keys)) for _ in range(_BATCH)])
        began = time.process_time()
        step.process(records)
        taken.append((time.process_time() - began) / _BATCH * 1e6)
    return megabytes, min(taken)


class _Made(KeyedSnapshot):
    """State of so many keys, made part by part."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def since(self, earlier: object) -> None:
        return None

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        for start in range(0, self._keys, _AT_ONCE):
            yield {_key(number): _state(number) for number in range(start, min(start + _AT_ONCE, self._keys))}

    def __getitem__(self, key: str) -> bytes:
        raise KeyError(key)


def _key(number: int) -> str:
    return f"author {number:08d}"


def _state(texts: int) -> bytes:
    return b'{"last":"a topic of theirs","texts":%d}' % texts


def _follow(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
    state = state or {"texts": 0, "last": None}
    return {"before": str(state["texts"])}, {"texts": state["texts"] + 1, "last": record["text"][:8]}


def _records(authors: list[str]) -> pa.Table:
    size = len(authors)
    position = {"_rank": pa.array([0] * size, pa.int32()), "_offset": pa.array(range(size), pa.int64())}
    fields = {"author": pa.array(authors, pa.string()), "text": pa.array(["some words of theirs"] * size, pa.string())}
    return pa.table({**position, "_time": pa.nulls(size, pa.int64()), **fields})


def _resident() -> float:
    """The memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


MEASUREMENTS = (
    Measurement(
        (Figure("dirty_row_checkpoint_wait", "ms", at_most(3)), Figure("dirty_row_checkpoint", "ms", at_most(3))),
        "naive_bayes, 2^18 dimensions and 20 classes, 1,000 texts of 35 words learned before each of 200 checkpoints: "
        "time of the checkpoint until the pipeline may continue (*_wait), and until it is durable.",
        _model,
        name="dirty_row_checkpoints",
    ),
    Measurement(
        (Figure("keyed_checkpoint", "ms"), Figure("keyed_checkpoint_bytes", "bytes"), Figure("keyed_restore", "s")),
        "1,000,000 keys in memory, 1,000 changed before each of 200 checkpoints: time until a checkpoint is durable, "
        "its size, and loading the last one.",
        _keyed,
        name="keyed_checkpoints",
    ),
    Measurement(
        tuple(
            figure
            for store in ("memory", "rocksdb")
            for figure in (Figure(f"keyed_{store}", "MB"), Figure(f"keyed_{store}_record", "us"))
        ),
        "6,000,000 keys of per_key in memory and in RocksDB: their memory, and the CPU time of a record.",
        _stores,
        name="keyed_stores",
    ),
)

"""What state by key costs: saving what has changed of it, loading it, its memory, and a record that meets it."""

from __future__ import annotations

import multiprocessing
import random
import resource
import shutil
import statistics
import sys
import time
import types
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from benchmarks.figures import Figure, Measurement, Setting, spread

from millstream.state.applied_epochs import Applied
from millstream.state.checkpoints import SaveReader, SaveStore
from millstream.state.keyed_state import Keyed, KeyedStore
from millstream.steps.contracts import Step
from millstream.steps.per_key import PerKey

__all__ = ["MEASUREMENTS"]

_TOUCHED = 1_000
_BATCH = 20_000
_AT_ONCE = 4_096

Store = Literal["memory", "rocksdb"]


def _key(number: int) -> str:
    return f"author {number:08d}"


def _state(texts: int) -> bytes:
    return b'{"last":"a topic of theirs","texts":%d}' % texts


def _saves(setting: Setting) -> Iterator[Figure]:
    keys, epochs = (20_000, 20) if setting.quick else (1_000_000, 200)
    folder, dice, store = setting.folder / "keyed-saves", random.Random(1), KeyedStore()
    for number in range(keys):
        store.put(_key(number), _state(number))
    saves, taken, sizes = SaveStore(folder, {}), [], []
    saves.write(0, Applied([[0, 1]]), {"per_key": store.snapshot()})
    for epoch in range(1, epochs + 1):
        for _ in range(_TOUCHED):
            store.put(_key(dice.randrange(keys)), _state(epoch))
        began = time.perf_counter()
        save = saves.write(epoch, Applied([[0, epoch + 1]]), {"per_key": store.snapshot()})
        taken.append((time.perf_counter() - began) * 1e3)
        sizes.append(saves.size(save) or 0)
        saves.drop_before(epoch)
    yield Figure("keyed_save", statistics.median(taken), "ms", None, f"{spread(taken, '.1f')}; fsync included")
    yield Figure("keyed_save_bytes", statistics.median(sizes), "bytes")
    yield Figure("keyed_restore", statistics.median(_restored(folder) for _ in range(setting.rounds)), "s")
    shutil.rmtree(folder)


def _restored(folder: Path) -> float:
    began = time.perf_counter()
    reader = SaveReader(folder)
    newest = reader.newest()
    state = reader.load(newest)["per_key"] if newest is not None else {}
    if not isinstance(state, Keyed):
        raise RuntimeError("the save has no state by key")
    KeyedStore().restore(state)
    return time.perf_counter() - began


def _stores(setting: Setting) -> Iterator[Figure]:
    keys = 50_000 if setting.quick else 6_000_000
    stores: tuple[Store, ...] = ("memory", "rocksdb")
    for store in stores:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
            megabytes, micros = fresh.submit(_filled, store, keys).result()
        setting.say(f"{store}: {megabytes:,.0f} MB, {micros:.1f} us")
        yield Figure(f"keyed_{store}", megabytes, "MB", None, f"{keys:,} keys")
        yield Figure(f"keyed_{store}_record", micros, "us", None, "CPU; the function's own time included")


def _filled(store: Store, keys: int) -> tuple[float, float]:
    """The memory that these keys take in a process of their own, and the time of a record."""
    step = _following(store)
    before, dice = _resident(), random.Random(2)
    step.restore(_Made(keys))
    megabytes, taken = _resident() - before, []
    for _ in range(5):
        records = _records([_key(dice.randrange(keys)) for _ in range(_BATCH)])
        began = time.process_time()
        step.process(records)
        taken.append((time.process_time() - began) / _BATCH * 1e6)
    return megabytes, min(taken)


class _Made(Keyed):
    """A state of so many keys that is nowhere as a whole."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def since(self, earlier: object) -> None:
        return None

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        for start in range(0, self._keys, _AT_ONCE):
            yield {_key(number): _state(number) for number in range(start, min(start + _AT_ONCE, self._keys))}

    def __getitem__(self, key: str) -> bytes:
        raise KeyError(key)


def _following(store: Store) -> Step:
    rules = sys.modules["rules"] = types.ModuleType("rules")
    rules.__dict__["follow"] = _follow
    return PerKey(key="author", function="rules:follow", adds=("before",), store=store).build(_records([]).schema)


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
        "keyed_saves",
        ("keyed_save", "keyed_save_bytes", "keyed_restore"),
        "1,000,000 keys in memory, 1,000 of them changed before each of 200 saves: a save, durable; loading the last",
        _saves,
    ),
    Measurement(
        "keyed_stores",
        ("keyed_memory", "keyed_memory_record", "keyed_rocksdb", "keyed_rocksdb_record"),
        "6,000,000 keys of per_key in memory and in RocksDB: the memory they take, and the CPU time of a record",
        _stores,
    ),
)

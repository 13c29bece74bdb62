"""Small graphs in one process, and with readers and a sequencer whose messages arrive in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.shuffled_roles import ShuffledPool

from millstream.config.load import read_config
from millstream.config.pipeline import DEFAULT_LIMITS, CycleLimits
from millstream.engines.workers.feed import WorkersFeed
from millstream.engines.workers.legs import legs_of
from millstream.log.epochs import Added, Ended, Epoch, PartitionName
from millstream.log.ranges import Range, records_schema
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import ThreadedBackground, finish
from millstream.state.checkpoints import CheckpointStore
from millstream.state.layers import Layers
from millstream.steps.graph import Graph, build_graph
from millstream.steps.outcome import Outcome
from millstream.steps.processor import EpochProcessor, EpochResult

__all__ = ["SharedRun", "Steps", "alone", "epochs", "graph", "same"]

FIELDS = ["text", "label", "author"]
PARTITIONS = [PartitionName("source", f"part{rank}", rank) for rank in (0, 1)]
EPOCHS, SIZE, READERS, SECOND = 8, 40, 2, 1_000_000
Steps = list[dict[str, Any]]


def graph(steps: Sequence[Mapping[str, Any]], folder: Path, limits: CycleLimits = DEFAULT_LIMITS) -> Graph:
    """A graph in which every step has a sink for its records, so that their order is compared."""
    source = {"type": "files", "path": "documents", "fields": {name: name for name in (*FIELDS, "time")}}
    sinks = {step.get("name", step["type"]): {"type": "files"} for step in steps}
    config = {"name": "legs", "source": source, "pipeline": {"steps": steps}, "sinks": sinks}
    loaded = read_config(config, folder, "legs.yaml").config
    return build_graph(loaded.steps, FIELDS, loaded.source_times, loaded.sinks, limits)


def epochs() -> list[Epoch]:
    events: list[tuple[Any, ...]] = [tuple(map(Added, PARTITIONS)), *[()] * (EPOCHS - 2), (Ended(0), Ended(1))]
    cuts = [{rank: (n * SIZE, n * SIZE + SIZE) for rank in (0, 1)} for n in range(EPOCHS)]
    return [Epoch(n, cuts[n], events[n], at=10**15) for n in range(EPOCHS)]


def read(ranges: Sequence[Range]) -> pa.Table:
    return pa.concat_tables(records(each.rank, each.start, each.stop) for each in ranges)


def records(rank: int, start: int, stop: int) -> pa.Table:
    """Records that are up to 8 seconds out of order, with many authors and words, some without an author or a time.

    Several of a partition, and more of both, have the same time.
    """
    rows = []
    for n in range(start, stop):
        number = n * 7919 % 1009 + rank
        time = (n - n * 5 % 9 * 4) // 4 * SECOND
        row = {"_rank": rank, "_offset": n, "_time": None if number % 53 == 0 else time, "_reject": None}
        words = [f"word{number * times % 31}" for times in (1, 3, 3, 5)]
        label = ("even", "odd", None)[number % 3]
        author = None if number % 41 == 0 else f"author {number % 37}"
        rows.append({**row, "text": " ".join(words), "label": label, "author": author})
    return pa.Table.from_pylist(rows, schema=records_schema(FIELDS))


class SharedRun:
    """A run with readers and a sequencer; a seed decides the order of their messages."""

    def __init__(
        self, steps: Steps, folder: Path, seed: int, readers: int = READERS, limits: CycleLimits = DEFAULT_LIMITS
    ) -> None:
        self._steps, self._folder, self._seed, self._readers = steps, folder, seed, readers
        self._limits = limits
        self._layers = Layers(folder / f"run{seed}/layers", background=ThreadedBackground())
        self._store = CheckpointStore(folder / f"run{seed}", {}, layers=self._layers)
        self._store.begin()
        self._feed: WorkersFeed
        self.restart()

    def restart(self, checkpointed: int = -1, readers: int | None = None) -> None:
        """Start new roles, from a checkpoint of the state after this epoch if there is one; perhaps more readers."""
        checkpoint = None
        if checkpointed >= 0:
            sections = self._feed.save(self._store.next_layer, self._layers.background).result()
            checkpoint = finish(self._store.write(checkpointed, AppliedEpochs([[0, checkpointed + 1]]), sections))
            self._store.counts(checkpoint)
        self._readers = readers or self._readers
        self.pool = ShuffledPool(
            self._readers,
            lambda: graph(self._steps, self._folder, self._limits),
            read,
            self._layers,
            self._seed + checkpointed,
        )
        legs = legs_of(graph(self._steps, self._folder))
        self._feed = WorkersFeed(self.pool, legs, group_size=lambda waiting: 3)
        self._feed.restore(self._store.newest_states(checkpoint), PARTITIONS if checkpoint else [])

    def process(self, given: Sequence[Epoch]) -> list[EpochResult]:
        for epoch in given:
            self._feed.offer(epoch)
        made: list[EpochResult] = []
        while len(made) < len(given):
            made += [self._feed.process(epoch, 1) for epoch in self._feed.ready(0.0)]
        return made

    def finish(self) -> Outcome:
        return self._feed.finish()


def alone(steps: Steps, folder: Path, limits: CycleLimits = DEFAULT_LIMITS) -> tuple[list[EpochResult], Outcome]:
    """The results of one process."""
    processor = EpochProcessor(graph(steps, folder, limits))
    processor.restore({}, [])
    made = [
        processor.process(epoch, read([Range(rank, PARTITIONS[rank], *epoch.cut[rank]) for rank in (0, 1)]))
        for epoch in epochs()
    ]
    return made, processor.outcome()


def same(made: Sequence[EpochResult], golden: Sequence[EpochResult]) -> None:
    for one, other in zip(made, golden, strict=True):
        assert one.receipt.line() == other.receipt.line()
        assert one.rows == other.rows  # in the same order

"""State with its owners: each role writes and reads its own sections, and the coordinator has no state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.shuffled_roles import ShuffledPool
from support.steps_counted_words import WORDS, CountedWords
from support.user_functions import __name__ as user_functions

from millstream.config.pipeline import NamedStep
from millstream.engines.workers.feed import WorkersFeed
from millstream.engines.workers.legs import legs_of
from millstream.engines.workers.messages import Restore, StateWritten
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.log.ranges import records_schema
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import ThreadedBackground, finish
from millstream.state.checkpoints import Checkpoint, CheckpointStore
from millstream.state.layers import Layers
from millstream.steps.classify import Classify
from millstream.steps.graph import Graph, build_graph
from millstream.steps.outcome import outcome_of
from millstream.steps.per_key import PerKey
from millstream.steps.processor import EpochProcessor

FIELDS = ["text", "label", "author"]
PARTITION = PartitionName("source", "part", 0)
SIZE = 8
READERS = 2


def graph() -> Graph:
    follow = PerKey(key="author", function=f"{user_functions}:follow", adds=("before",))
    return build_graph([NamedStep("follow", follow), NamedStep("classify", Classify(model=CountedWords()))], FIELDS)


def epochs(count: int) -> list[Epoch]:
    events = [(Added(PARTITION),), *[()] * (count - 1)]
    return [Epoch(n, {0: (n * SIZE, n * SIZE + SIZE)}, events[n]) for n in range(count)]


def records(start: int, stop: int) -> pa.Table:
    offsets = range(start, stop)
    columns: dict[str, Sequence[Any]] = {
        "_rank": [0] * len(offsets),
        "_offset": offsets,
        "_time": offsets,
        "_reject": [None] * len(offsets),
        "text": [f"one of many {n} {n % 7}" for n in offsets],
        "label": [("even", "odd")[n % 2] for n in offsets],
        "author": [f"author {n % 40}" for n in offsets],
    }
    return pa.table(columns, schema=records_schema(FIELDS))


class OwnedRun:
    """A run with two readers that own keys, and the same in one process."""

    def __init__(self, run: Path) -> None:
        self.layers = Layers(run / "layers", background=ThreadedBackground())
        self.store = CheckpointStore(run, {}, layers=self.layers)
        self.store.begin()
        self.alone = EpochProcessor(graph())
        self.alone.restore({}, [])
        self.restart(None, [])

    def restart(self, checkpoint: Checkpoint | None, partitions: Sequence[PartitionName]) -> None:
        self.pool = ShuffledPool(READERS, graph, lambda ranges: records(ranges[0].start, ranges[0].stop), self.layers)
        self.workers = WorkersFeed(self.pool, legs_of(graph()))
        self.workers.restore(self.store.newest_states(checkpoint), partitions)

    def process(self, epoch: Epoch) -> None:
        self.alone.process(epoch, records(*epoch.cut[0]))
        self.workers.offer(epoch)
        self.workers.process(epoch, 1)

    def checkpoint(self, epoch: int) -> Checkpoint:
        sections = self.workers.save(self.store.next_layer, self.layers.background).result()
        made = finish(self.store.write(epoch, AppliedEpochs([[0, epoch + 1]]), sections))
        self.store.counts(made)
        return made


@pytest.fixture
def run(tmp_path: Path) -> OwnedRun:
    return OwnedRun(tmp_path)


def test_the_sections_of_all_owners_are_the_state_of_one_process(run: OwnedRun) -> None:
    for epoch in epochs(12):
        run.process(epoch)
        if epoch.number % 3 != 1:
            checkpoint = run.checkpoint(epoch.number)
            stored = outcome_of(run.store.states(checkpoint))
            assert stored.states == run.alone.outcome().states


def test_owners_report_digests_that_add_up_to_those_of_one_process(run: OwnedRun) -> None:
    for epoch in epochs(5):
        run.process(epoch)
    assert run.workers.finish() == run.alone.outcome()


def test_each_reader_writes_its_own_shards(run: OwnedRun) -> None:
    for epoch in epochs(5):
        run.process(epoch)
    checkpoint = run.checkpoint(4)
    files = {shard: chain[0].file for shard, chain in checkpoint.sections["follow"].items()}
    assert len(checkpoint.files) == 3 and len(set(files.values())) == 2
    assert all(files[one] == files[other] for one in files for other in files if one % READERS == other % READERS)


def test_no_message_carries_state(run: OwnedRun) -> None:
    for epoch in epochs(6):
        run.process(epoch)
        checkpoint = run.checkpoint(epoch.number)
    run.restart(checkpoint, [PARTITION])
    run.workers.finish()
    sizes = [size for message, size in run.pool.carried if isinstance(message, Restore | StateWritten)]
    assert len(sizes) == 3 and max(sizes) < WORDS * 8 / 2


def test_restarted_owners_continue_from_their_sections(run: OwnedRun) -> None:
    first, second, third = epochs(3)
    run.process(first)
    run.process(second)
    checkpoint = run.checkpoint(1)
    run.restart(checkpoint, [PARTITION])
    run.process(third)
    assert run.workers.finish() == run.alone.outcome()


def test_a_saved_state_stays_the_same_while_the_roles_continue(run: OwnedRun) -> None:
    first, second, third = epochs(3)
    run.process(first)
    run.process(second)
    expected = run.alone.outcome()
    saving = run.workers.save(run.store.next_layer, run.layers.background)
    run.process(third)
    made = finish(run.store.write(1, AppliedEpochs([[0, 2]]), saving.result()))
    assert outcome_of(run.store.states(made)).states == expected.states

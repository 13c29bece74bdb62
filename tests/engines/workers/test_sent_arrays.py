"""Arrays that track their dirty rows: the sequencer sends the whole array once, and then only the changed rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from support.steps_counted_words import WORDS, CountedWords

from millstream.config.pipeline import NamedStep
from millstream.digests import Digest
from millstream.engines.local.channel import pack, unpack
from millstream.engines.workers.feed import WorkersFeed
from millstream.engines.workers.messages import Message, Rows, StateReply
from millstream.engines.workers.roles import COORDINATOR, handle, role_names, role_of
from millstream.engines.workers.stages import stages_of
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.log.ranges import Range, records_schema
from millstream.state.checkpoints import States
from millstream.state.digests import states_digest
from millstream.state.dirty_rows import ArraySnapshot
from millstream.steps.classify import Classify
from millstream.steps.graph import Graph, build_graph
from millstream.steps.processor import EpochProcessor

FIELDS = ["text", "label"]
PARTITION = PartitionName("source", "part", 0)
SIZE = 8
GROWS = 9
"""The epoch that brings the third class, for which the model has no column yet."""


def graph() -> Graph:
    return build_graph([NamedStep("classify", Classify(model=CountedWords()))], FIELDS)


def epochs(count: int) -> list[Epoch]:
    events = [(Added(PARTITION),), *[()] * (count - 1)]
    return [Epoch(n, {0: (n * SIZE, n * SIZE + SIZE)}, events[n]) for n in range(count)]


def records(start: int, stop: int) -> pa.Table:
    offsets = range(start, stop)
    labels = ["third" if n // SIZE >= GROWS and n % 5 == 0 else ("even", "odd")[n % 2] for n in offsets]
    columns: dict[str, Sequence[Any]] = {
        "_rank": [0] * len(offsets),
        "_offset": offsets,
        "_time": offsets,
        "_reject": [None] * len(offsets),
        "text": [f"one of many {n} {n % 7}" for n in offsets],
        "label": labels,
    }
    return pa.table(columns, schema=records_schema(FIELDS))


class InProcessPool:
    """The roles of a run in one process; each message is serialized and read back, as between processes."""

    def __init__(self) -> None:
        self.names = role_names(2)
        self.arrived: deque[Message] = deque()
        self.sent: list[tuple[StateReply, int]] = []
        """The states sent to the coordinator, each with its size in bytes."""
        self._carried: deque[tuple[str, memoryview]] = deque()
        self._roles = {}
        for name in self.names:
            own = graph()
            self._roles[name] = role_of(name, 1, own, stages_of(own), self._read, self.send)

    def send(self, name: str, message: Message) -> None:
        self._carried.append((name, pack(message)))

    def receive(self, seconds: float | None) -> Message | None:
        while self._carried and not self.arrived:
            name, data = self._carried.popleft()
            message: Message = unpack(data)
            if name != COORDINATOR:
                handle(self._roles[name], message, self.send)
                continue
            self.arrived.append(message)
            if isinstance(message, StateReply):
                self.sent.append((message, len(data)))
        return self.arrived.popleft() if self.arrived else None

    @staticmethod
    def _read(ranges: Sequence[Range]) -> pa.Table:
        return records(ranges[0].start, ranges[0].stop)


@pytest.fixture
def pool() -> InProcessPool:
    return InProcessPool()


@pytest.fixture
def workers(pool: InProcessPool) -> WorkersFeed:
    own = graph()
    workers = WorkersFeed(pool, stages_of(own), EpochProcessor(own))
    workers.restore({}, [])
    return workers


def test_the_coordinator_has_the_states_of_one_process_and_they_do_not_change_later(
    workers: WorkersFeed,
) -> None:
    alone = EpochProcessor(graph())
    alone.restore({}, [])
    taken: list[tuple[States, Digest]] = []
    for epoch in epochs(12):
        alone.process(epoch, records(*epoch.cut[0]))
        workers.offer(epoch)
        workers.process(epoch, 1)
        if epoch.number % 3 != 1:
            taken.append((workers.request_states()(), alone.state_digest()))
    assert [states_digest(states) for states, _ in taken] == [digest for _, digest in taken]
    earlier, later = (states["classify"]["model/counts"] for states, _ in taken[-2:])
    assert isinstance(later, ArraySnapshot) and 0 < len(later.since(earlier)) < WORDS / 2  # type: ignore[arg-type]


def test_a_whole_array_is_sent_once_and_again_when_the_model_has_grown(
    workers: WorkersFeed, pool: InProcessPool
) -> None:
    for epoch in epochs(12):
        workers.offer(epoch)
        workers.process(epoch, 1)
        workers.request_states()()
    sent = [saved.dirty["classify"]["model/counts"] for saved, _ in pool.sent]
    assert [number for number, part in enumerate(sent) if not isinstance(part, Rows)] == [0, GROWS]
    assert all(len(part.indices) < 30 for part in sent if isinstance(part, Rows))
    assert all("model/counts" not in saved.states["classify"] for saved, _ in pool.sent)
    sizes = [size for _, size in pool.sent]
    assert sizes[0] > WORDS * 8 > 2 * max(sizes[1:GROWS])


def test_a_state_whose_reply_was_not_awaited_is_sent_too(workers: WorkersFeed) -> None:
    alone = EpochProcessor(graph())
    alone.restore({}, [])
    for epoch in epochs(4):
        alone.process(epoch, records(*epoch.cut[0]))
        workers.offer(epoch)
        workers.process(epoch, 1)
        workers.request_states()
        states_of = workers.request_states()  # before the reply to the first request
    assert states_digest(states_of()) == alone.state_digest()


def test_restored_workers_send_whole_arrays_again(workers: WorkersFeed, pool: InProcessPool) -> None:
    first, second, third = epochs(3)
    for epoch in (first, second):
        workers.offer(epoch)
        workers.process(epoch, 1)
        state = workers.request_states()()
    digest = states_digest(state)
    workers.restore(state, [PARTITION])
    assert states_digest(workers.request_states()()) == digest
    workers.offer(third)
    workers.process(third, 1)
    workers.request_states()()
    kinds = [isinstance(saved.dirty["classify"]["model/counts"], Rows) for saved, _ in pool.sent]
    assert kinds == [False, True, False, True]
    assert states_digest(state) == digest

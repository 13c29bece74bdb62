"""What the sequencer tells of arrays that know what was touched of them: all of it once, and then these rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from support.steps_counted_words import WORDS, CountedWords

from millstream.config.pipeline import NamedStep
from millstream.engines.local.channel import packed, unpacked
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


class Together:
    """The roles of a run in one place; messages go through the bytes that they are between processes."""

    def __init__(self) -> None:
        self.names = role_names(2)
        self.arrived: deque[Message] = deque()
        self.sent: list[tuple[StateReply, int]] = []
        """What the coordinator was told of states, and the bytes of it."""
        self._carried: deque[tuple[str, memoryview]] = deque()
        self._roles = {}
        for name in self.names:
            own = graph()
            self._roles[name] = role_of(name, 1, own, stages_of(own), self._read, self.send)

    def send(self, name: str, message: Message) -> None:
        self._carried.append((name, packed(message)))

    def receive(self, seconds: float | None) -> Message | None:
        while self._carried and not self.arrived:
            name, data = self._carried.popleft()
            message: Message = unpacked(data)
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
def together() -> Together:
    return Together()


@pytest.fixture
def workers(together: Together) -> WorkersFeed:
    own = graph()
    workers = WorkersFeed(together, stages_of(own), EpochProcessor(own))
    workers.restore({}, [])
    return workers


def test_the_coordinator_has_the_states_of_one_process_and_they_stay(workers: WorkersFeed) -> None:
    alone = EpochProcessor(graph())
    alone.restore({}, [])
    taken: list[tuple[States, str]] = []
    for epoch in epochs(12):
        alone.process(epoch, records(*epoch.cut[0]))
        workers.offer(epoch)
        workers.process(epoch, 1)
        if epoch.number % 3 != 1:
            taken.append((workers.request_states()(), alone.state_digest()))
    assert [states_digest(states) for states, _ in taken] == [digest for _, digest in taken]
    earlier, later = (states["classify"]["model/counts"] for states, _ in taken[-2:])
    assert isinstance(later, ArraySnapshot) and 0 < len(later.since(earlier)) < WORDS / 2  # type: ignore[arg-type]


def test_all_is_told_once_and_again_only_when_the_model_has_grown(workers: WorkersFeed, together: Together) -> None:
    for epoch in epochs(12):
        workers.offer(epoch)
        workers.process(epoch, 1)
        workers.request_states()()
    told = [saved.dirty["classify"]["model/counts"] for saved, _ in together.sent]
    assert [number for number, part in enumerate(told) if not isinstance(part, Rows)] == [0, GROWS]
    assert all(len(part.indices) < 30 for part in told if isinstance(part, Rows))
    assert all("model/counts" not in saved.states["classify"] for saved, _ in together.sent)
    sizes = [size for _, size in together.sent]
    assert sizes[0] > WORDS * 8 > 2 * max(sizes[1:GROWS])


def test_a_checkpoint_that_nobody_waited_for_is_told_too(workers: WorkersFeed) -> None:
    alone = EpochProcessor(graph())
    alone.restore({}, [])
    for epoch in epochs(4):
        alone.process(epoch, records(*epoch.cut[0]))
        workers.offer(epoch)
        workers.process(epoch, 1)
        workers.request_states()
        asked = workers.request_states()  # before that one was told
    assert states_digest(asked()) == alone.state_digest()


def test_workers_that_are_restored_are_told_all_again(workers: WorkersFeed, together: Together) -> None:
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
    kinds = [isinstance(saved.dirty["classify"]["model/counts"], Rows) for saved, _ in together.sent]
    assert kinds == [False, True, False, True]
    assert states_digest(state) == digest

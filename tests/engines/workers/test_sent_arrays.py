"""What the sequencer tells of arrays that know what was touched of them: all of it once, and then these rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from steps.counted_words import WORDS, CountedWords

from millstream.config.pipeline import NamedStep
from millstream.engines.local.channel import packed, unpacked
from millstream.engines.workers.coordinator import Workers
from millstream.engines.workers.messages import Message, Range, Rows, Saved
from millstream.engines.workers.roles import COORDINATOR, heard, role_names, role_of
from millstream.engines.workers.stages import stages_of
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.log.reading import records_schema
from millstream.state.digests import states_digest
from millstream.state.saves import States
from millstream.state.touched import Touched
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
        self.arrived: deque[Message] = deque()
        self.told: list[tuple[Saved, int]] = []
        """What the coordinator was told of states, and the bytes of it."""
        self._sent: deque[tuple[str, memoryview]] = deque()
        self._roles = {}
        for name in role_names(2):
            own = graph()
            self._roles[name] = role_of(name, 1, own, stages_of(own), self._read, self.post)

    def post(self, name: str, message: Message) -> None:
        self._sent.append((name, packed(message)))

    def receive(self, seconds: float | None) -> Message | None:
        while self._sent and not self.arrived:
            name, data = self._sent.popleft()
            message: Message = unpacked(data)
            if name != COORDINATOR:
                heard(self._roles[name], message, self.post)
                continue
            self.arrived.append(message)
            if isinstance(message, Saved):
                self.told.append((message, len(data)))
        return self.arrived.popleft() if self.arrived else None

    @staticmethod
    def _read(ranges: Sequence[Range]) -> pa.Table:
        return records(ranges[0].start, ranges[0].stop)


@pytest.fixture
def together() -> Together:
    return Together()


@pytest.fixture
def workers(together: Together) -> Workers:
    workers = Workers(["reader 0"], stages_of(graph()), together.post, together.receive)
    workers.restore({}, [])
    return workers


def test_the_coordinator_has_the_states_of_one_process_and_they_stay(workers: Workers) -> None:
    alone = EpochProcessor(graph())
    alone.restore({}, [])
    taken: list[tuple[States, str]] = []
    for epoch in epochs(12):
        alone.process(epoch, records(*epoch.cut[0]))
        workers.send(epoch)
        workers.process(epoch, None)
        if epoch.number % 3 != 1:
            taken.append((workers.ask_save()(), alone.state_digest()))
    assert [states_digest(states) for states, _ in taken] == [digest for _, digest in taken]
    earlier, later = (states["classify"]["model/counts"] for states, _ in taken[-2:])
    assert isinstance(later, Touched) and 0 < len(later.since(earlier)) < WORDS / 2  # type: ignore[arg-type]


def test_all_is_told_once_and_again_only_when_the_model_has_grown(workers: Workers, together: Together) -> None:
    for epoch in epochs(12):
        workers.send(epoch)
        workers.process(epoch, None)
        workers.ask_save()()
    told = [saved.touched["classify"]["model/counts"] for saved, _ in together.told]
    assert [number for number, part in enumerate(told) if not isinstance(part, Rows)] == [0, GROWS]
    assert all(len(part.places) < 30 for part in told if isinstance(part, Rows))
    assert all("model/counts" not in saved.states["classify"] for saved, _ in together.told)
    sizes = [size for _, size in together.told]
    assert sizes[0] > WORDS * 8 > 2 * max(sizes[1:GROWS])


def test_a_save_that_nobody_waited_for_is_told_too(workers: Workers) -> None:
    alone = EpochProcessor(graph())
    alone.restore({}, [])
    for epoch in epochs(4):
        alone.process(epoch, records(*epoch.cut[0]))
        workers.send(epoch)
        workers.process(epoch, None)
        workers.ask_save()
        asked = workers.ask_save()  # before that one was told
    assert states_digest(asked()) == alone.state_digest()


def test_workers_that_are_restored_are_told_all_again(workers: Workers, together: Together) -> None:
    first, second, third = epochs(3)
    for epoch in (first, second):
        workers.send(epoch)
        workers.process(epoch, None)
        state = workers.ask_save()()
    digest = states_digest(state)
    workers.restore(state, [PARTITION])
    assert states_digest(workers.ask_save()()) == digest
    workers.send(third)
    workers.process(third, None)
    workers.ask_save()()
    kinds = [isinstance(saved.touched["classify"]["model/counts"], Rows) for saved, _ in together.told]
    assert kinds == [False, True, False, True]
    assert states_digest(state) == digest

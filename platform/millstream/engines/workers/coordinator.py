"""The coordinator's part: the steps of a pipeline in the hands of workers, and epochs taken through them in order."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from millstream.engines.job import Job
from millstream.engines.workers.messages import (
    Allow,
    AskSave,
    Done,
    Failed,
    Message,
    Range,
    Read,
    Restore,
    Rows,
    Saved,
    Skip,
    Take,
)
from millstream.engines.workers.roles import SEQUENCER, Post
from millstream.engines.workers.stages import Stages
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.log.planner import room
from millstream.state.keyed import Keyed, KeyedStore
from millstream.state.saves import States
from millstream.state.touched import RowStore, Value
from millstream.steps.processor import EpochResult

__all__ = ["StepsFailed", "Workers", "take_all"]

Receive = Callable[[float | None], Message | None]
"""The next message to the coordinator; None if nothing came within these seconds."""

_IDLE_SECONDS = 0.002
_GROUP_EPOCHS, _GROUP_RECORDS = 64, 10_000
"""How much may change state before it is delivered: so much that a delivery costs little beside it."""


class StepsFailed(Exception):
    """A step failed in an epoch that may not be the one in hand."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Workers:
    """The steps of a pipeline, run by readers and the sequencer; the lifecycle takes it for the steps themselves.

    Readers work ahead: their first steps have no state. What has state waits until it is allowed to go on.
    """

    def __init__(self, readers: Sequence[str], stages: Stages, post: Post, receive: Receive) -> None:
        self.partitions: list[PartitionName] = []
        self.allowed = 0
        """The epochs before this one may change state."""
        self.ahead = False
        """Whether epochs may be allowed before those in hand are delivered."""
        self._readers = readers
        self._with_state = [*(readers if stages.keyed is not None else ()), SEQUENCER]
        self._post, self._receive = post, receive
        self._held_back: deque[Epoch] = deque()
        """What was sent and is not yet allowed."""
        self._done: dict[int, EpochResult] = {}
        self._failed: dict[int, Exception] = {}
        """What could not be read ahead: it is told when it is that epoch's turn, as if nobody had read ahead."""
        self._asked = 0
        self._saved: list[Saved] = []
        self._keyed: dict[str, KeyedStore] = {}
        """By step: the state of all keys, as far as it was told."""
        self._rows: dict[tuple[str, str], RowStore] = {}
        """By step and name: the arrays of which it is told what was written to."""

    def send(self, epoch: Epoch) -> None:
        """Let an epoch be read, and taken through the first steps."""
        self._join(epoch)
        ranges = [Range(rank, self.partitions[rank], *span) for rank, span in epoch.cut.items()]
        if not self._held_back:
            self.allowed = epoch.number  # also for the first one: the epochs before are in the state, or lost
        self._held_back.append(epoch)
        self._post(SEQUENCER, Take(epoch))
        self._post(self._readers[epoch.number % len(self._readers)], Read(epoch.number, ranges))

    def group(self, waiting: Iterable[Epoch]) -> list[Epoch]:
        """The epochs that pass together: those that may change state, up to one that failed, which comes alone."""
        allowed = list(itertools.takewhile(lambda epoch: epoch.number < self.allowed, waiting))
        sound = list(itertools.takewhile(lambda epoch: epoch.number not in self._failed, allowed))
        return sound or allowed[:1]

    def through(self, epochs: Sequence[Epoch]) -> bool:
        """Whether all of these are through all steps, or will never be."""
        return all(epoch.number in self._done or epoch.number in self._failed for epoch in epochs)

    def hear(self, seconds: float | None) -> None:
        """Take in one message, if one comes within these seconds."""
        match self._receive(seconds):
            case None:
                pass
            case Done(processed):
                self._done[processed.epoch.number] = processed
            case Saved(number) as saved:
                self._keep(saved)
                if number == self._asked:
                    self._saved.append(saved)
            case Failed(error, None):
                raise StepsFailed(error)
            case Failed(error, int(epoch)):
                self._failed[epoch] = error
            case other:
                raise AssertionError(other)

    def process(self, epoch: Epoch, records: pa.Table | None, attempt: int = 1) -> EpochResult:
        """What an epoch that was sent comes to; `records` are the readers' business."""
        self._allow(epoch.number + 1)
        while epoch.number not in self._done:
            if epoch.number in self._failed:
                raise self._failed[epoch.number]
            self.hear(None)
        processed = self._done.pop(epoch.number)
        return replace(processed, note=replace(processed.note, attempt=attempt))

    def go_on(self) -> None:
        """More of the epochs that were sent may change state, if any may that is not yet taken."""
        epochs = records = 0
        while self.ahead and self._held_back and epochs < _GROUP_EPOCHS:
            records += self._held_back[0].size
            if epochs and records > _GROUP_RECORDS:
                break
            epochs += 1
            self._allow(self._held_back[0].number + 1)

    def skip(self, epoch: Epoch) -> None:
        self._join(epoch)
        self._post(SEQUENCER, Skip(epoch))

    def ask_save(self) -> Callable[[], States]:
        """The state after the epochs allowed so far, of which all must be through, but for those that never will be."""
        self._asked += 1
        self._saved = []
        for role in self._with_state:
            self._post(role, AskSave(self._asked))
        return self._states

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        self.partitions = list(partitions)
        self._keyed, self._rows = {}, {}
        for role in self._with_state:
            self._post(role, Restore(states, partitions))

    def _states(self) -> States:
        while len(self._saved) < len(self._with_state):
            self.hear(None)
        whole: dict[str, Mapping[str, Value]] = {}
        for saved in self._saved:
            for step in saved.states.keys() - self._keyed.keys():
                rows = {name: self._rows[step, name].snapshot() for name in saved.touched.get(step, ())}
                whole[step] = {**whole.get(step, {}), **saved.states[step], **rows}
        return whole | {step: store.snapshot() for step, store in self._keyed.items()}

    def _keep(self, saved: Saved) -> None:
        """Keep up what is told in full only once."""
        by_key = {step: dict(state) for step, state in saved.states.items() if isinstance(state, Keyed)}
        for step, entries in {**by_key, **saved.changed}.items():
            store = self._keyed.setdefault(step, KeyedStore())
            for key, value in entries.items():
                store.put(key, value)
        for step, arrays in saved.touched.items():
            for name, told in arrays.items():
                if isinstance(told, Rows):
                    self._rows[step, name].put(told.places, told.values)
                else:
                    self._rows[step, name] = RowStore(told)

    def _allow(self, stop: int) -> None:
        if stop > self.allowed:
            for role in self._with_state:
                self._post(role, Allow(self.allowed, stop))
            self.allowed = stop
        while self._held_back and self._held_back[0].number < stop:
            self._held_back.popleft()

    def _join(self, epoch: Epoch) -> None:
        for event in epoch.events:
            if isinstance(event, Added) and event.partition not in self.partitions:
                self.partitions.append(event.partition)


def take_all(job: Job, workers: Workers, clock: Callable[[], float] = time.monotonic, *, together: bool) -> None:
    """Take a job's epochs through its passage, from what is durable to a clean end.

    If they may pass `together`, all epochs that are ready do, while the next ones are worked on; if not, one after the
    other. Only with exactly_once, and where no crash waits for its point, can nobody tell.
    """
    passage, cutter = job.passage, job.cutter
    passage.processing = workers
    workers.ahead = together
    waiting: deque[Epoch] = deque()

    def send(epoch: Epoch) -> None:
        workers.send(epoch)
        waiting.append(epoch)

    def take(epochs: Sequence[Epoch]) -> None:
        passage.take([(epoch, None) for epoch in epochs])
        job.throttle.through(epochs[-1].number)
        for _ in epochs:
            waiting.popleft()

    repeated = deque(job.waiting(passage.start()))
    while not job.stop.is_set():
        records = sum(epoch.size for epoch in waiting) if repeated else 0
        while repeated and room(len(waiting), records, repeated[0].size):
            records += repeated[0].size
            send(repeated.popleft())
        while not repeated and (cut := cutter.cut(clock())) is not None:
            send(cut)
        group = workers.group(waiting)
        if group and workers.through(group):
            take(group)
        elif group:
            workers.hear(_IDLE_SECONDS)
        elif not waiting:
            if cutter.done:
                break
            passage.rest()
            workers.hear(_IDLE_SECONDS)
        elif workers.ahead:
            workers.go_on()
        else:
            take([waiting[0]])
    workers.ahead = False
    while group := workers.group(waiting):
        take(group)
    job.processing.restore(workers.ask_save()(), workers.partitions)  # from here on no worker can be missed
    passage.processing = job.processing
    passage.end()

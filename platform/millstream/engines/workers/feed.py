"""The feed of a run with workers: the coordinator's side of what readers and the sequencer do."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol

from millstream.engines.job import Job
from millstream.engines.recovery import StepsFailed, run_with_recovery
from millstream.engines.workers.messages import (
    Allow,
    Done,
    Failed,
    Message,
    Read,
    Restore,
    Rows,
    Skip,
    StateReply,
    StateRequest,
    Take,
)
from millstream.engines.workers.roles import SEQUENCER
from millstream.engines.workers.stages import Stages, stages_of
from millstream.log.epochs import Epoch, PartitionName
from millstream.log.epochs.partitions import PartitionTable
from millstream.log.ranges import ranges_of
from millstream.state.checkpoints import States
from millstream.state.dirty_rows import RowStore, Value
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.steps.graph import Node
from millstream.steps.processor import EpochProcessor, EpochResult

__all__ = ["WorkerPool", "WorkersFeed", "run_with_workers"]

_GROUP_EPOCHS, _GROUP_RECORDS = 64, 10_000
"""The most epochs and records that change state before they are delivered: beside so many, a delivery costs little."""


class WorkerPool(Protocol):
    """The workers of one start, as the coordinator sees them. Both methods may raise `WorkerLost`."""

    @property
    def names(self) -> Sequence[str]:
        """The roles, the sequencer last."""
        ...

    def send(self, name: str, message: Message) -> None:
        """Send a message; does not wait for the worker."""
        ...

    def receive(self, seconds: float | None) -> Message | None:
        """The next message to the coordinator; None if none came within these seconds."""
        ...


class WorkersFeed:
    """Sends epochs to readers and the sequencer, and receives their results.

    Readers work ahead: the first steps have no state. State changes only in epochs that are allowed. `together` gives
    the number of epochs that form the next group, which may change state before those processed last are delivered;
    without it, one epoch after the other may.
    """

    def __init__(
        self,
        pool: WorkerPool,
        stages: Stages,
        processor: EpochProcessor,
        together: Callable[[Sequence[Epoch]], int] | None = None,
    ) -> None:
        self.allowed = 0
        """The epochs before this one may change state."""
        self._pool, self._processor, self._together = pool, processor, together
        self._readers = pool.names[:-1]
        self._with_state = [*(self._readers if stages.keyed is not None else ()), SEQUENCER]
        self._partitions = PartitionTable()
        self._offered: deque[Epoch] = deque()
        """The epochs that are sent and not yet processed."""
        self._results: dict[int, EpochResult] = {}
        self._failed: dict[int, Exception] = {}
        """Failures of epochs that were read ahead; each is raised when it is that epoch's turn."""
        self._requests = 0
        self._replies: list[StateReply] = []
        self._keyed: dict[str, KeyedStore] = {}
        """By step: the state of all keys, as far as workers have sent it."""
        self._rows: dict[tuple[str, str], RowStore] = {}
        """By step and name: the arrays of which workers send the changed rows."""
        self._finished = False

    # ------------------------------------------------------------ the driver's side

    def wants(self, full: bool) -> bool:
        return True

    def offer(self, epoch: Epoch) -> None:
        """Have an epoch read, and taken through the first steps."""
        self._partitions.follow(epoch)
        if not self._offered:
            # The epochs before are in the state, or lost; the first one of a start may be any.
            assert epoch.number >= self.allowed, (epoch.number, self.allowed)
            self.allowed = epoch.number
        self._offered.append(epoch)
        self._pool.send(SEQUENCER, Take(epoch))
        reader = self._readers[epoch.number % len(self._readers)]
        self._pool.send(reader, Read(epoch.number, ranges_of(epoch, self._partitions)))

    def ready(self, seconds: float) -> Sequence[Epoch]:
        """The epochs that may change state, when all of them are processed; or else the next one alone."""
        group = self._group()
        if self._offered and not group:
            if self._together is None:
                return (self._offered[0],)
            self.work_ahead()
            group = self._group()
        if not group or not self._processed(group):
            self._receive(seconds)
        return group if self._processed(group) else ()

    def unfinished(self) -> Sequence[Epoch]:
        self._together = None  # no other epoch begins
        return self._group()

    def finish(self) -> None:
        self._processor.restore(self.request_states()(), list(self._partitions))
        self._finished = True

    def _group(self) -> list[Epoch]:
        """The offered epochs that may change state, up to one that failed, which comes alone."""
        allowed = list(itertools.takewhile(lambda epoch: epoch.number < self.allowed, self._offered))
        sound = list(itertools.takewhile(lambda epoch: epoch.number not in self._failed, allowed))
        return sound or allowed[:1]

    def _processed(self, epochs: Sequence[Epoch]) -> bool:
        return all(epoch.number in self._results or epoch.number in self._failed for epoch in epochs)

    # ------------------------------------------------------------ the lifecycle's side

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        self._partitions = PartitionTable(partitions)
        self._keyed, self._rows = {}, {}
        for role in self._with_state:
            self._pool.send(role, Restore(states, partitions))

    def skip(self, epoch: Epoch) -> None:
        self._partitions.follow(epoch)
        self._pool.send(SEQUENCER, Skip(epoch))

    def process(self, epoch: Epoch, attempt: int) -> EpochResult:
        self._allow(epoch.number + 1)
        while epoch.number not in self._results:
            if epoch.number in self._failed:
                raise self._failed[epoch.number]
            self._receive(None)
        offered = self._offered.popleft()
        assert offered is epoch, (offered, epoch)
        result = self._results.pop(epoch.number)
        return replace(result, receipt=replace(result.receipt, attempt=attempt))

    def work_ahead(self) -> None:
        """Let the next group of offered epochs change state."""
        if self._together is None:
            return
        waiting = [epoch for epoch in self._offered if epoch.number >= self.allowed]
        epochs = records = 0
        for epoch in waiting[: min(self._together(waiting), _GROUP_EPOCHS)]:
            records += epoch.size
            if epochs and records > _GROUP_RECORDS:
                break
            epochs += 1
        if epochs:
            self._allow(waiting[epochs - 1].number + 1)

    def request_states(self) -> Callable[[], States]:
        """The state after the epochs allowed so far, which are all processed, or have failed."""
        if self._finished:
            return self._processor.save
        self._requests += 1
        self._replies = []
        for role in self._with_state:
            self._pool.send(role, StateRequest(self._requests))
        return self._states

    def _states(self) -> States:
        while len(self._replies) < len(self._with_state):
            self._receive(None)
        whole: dict[str, Mapping[str, Value]] = {}
        for saved in self._replies:
            for step in saved.states.keys() - self._keyed.keys():
                rows = {name: self._rows[step, name].snapshot() for name in saved.dirty.get(step, ())}
                whole[step] = {**whole.get(step, {}), **saved.states[step], **rows}
        return whole | {step: store.snapshot() for step, store in self._keyed.items()}

    def _allow(self, stop: int) -> None:
        if stop > self.allowed:
            for role in self._with_state:
                self._pool.send(role, Allow(self.allowed, stop))
            self.allowed = stop

    # ------------------------------------------------------------ the workers' side

    def _receive(self, seconds: float | None) -> None:
        """Take in one message, if one comes within these seconds."""
        match self._pool.receive(seconds):
            case None:
                pass
            case Done(result):
                self._results[result.epoch.number] = result
            case StateReply(number) as saved:
                self._keep(saved)
                if number == self._requests:
                    self._replies.append(saved)
            case Failed(error, None):
                raise StepsFailed(error)
            case Failed(error, int(epoch)):
                self._failed[epoch] = error
            case other:
                raise AssertionError(other)

    def _keep(self, saved: StateReply) -> None:
        """Keep up to date the state that is sent in full only once."""
        by_key = {step: dict(state) for step, state in saved.states.items() if isinstance(state, KeyedSnapshot)}
        for step, entries in {**by_key, **saved.changed}.items():
            store = self._keyed.setdefault(step, KeyedStore())
            for key, value in entries.items():
                store.put(key, value)
        for step, arrays in saved.dirty.items():
            for name, sent in arrays.items():
                if isinstance(sent, Rows):
                    self._rows[step, name].put(sent.indices, sent.values)
                else:
                    self._rows[step, name] = RowStore(sent)


def run_with_workers(
    job: Job,
    open_pool: Callable[[Job], AbstractContextManager[WorkerPool]],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run a job with workers. `open_pool` starts them, and as a context ends them."""
    stages = stages_of(job.graph)

    @contextmanager
    def open_feed(ahead: bool) -> Iterator[WorkersFeed]:
        with open_pool(job) as pool:
            yield WorkersFeed(pool, stages, job.processor, job.lifecycle.together if ahead else None)

    readers = [*stages.head, *([stages.keyed] if stages.keyed is not None else [])]
    advice = (
        f"readers run {_names(readers)}, the sequencer {_names(stages.rest)}: look at what they do with these records, "
        "and at the memory"
    )
    run_with_recovery(job, open_feed, advice, clock)


def _names(steps: Sequence[Node]) -> str:
    return ", ".join(node.name for node in steps) or "none"

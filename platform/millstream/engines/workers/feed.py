"""The feed of a run with workers: the coordinator's side of the exchange with readers and the sequencer."""

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
from millstream.log.epochs import Epoch, PartitionName, PartitionTable
from millstream.log.ranges import ranges_of
from millstream.state.checkpoints import States
from millstream.state.dirty_rows import RowStore, Value
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.steps.graph import Node
from millstream.steps.processor import EpochProcessor, EpochResult

__all__ = ["WorkersFeed", "run_with_workers"]

_GROUP_EPOCHS, _GROUP_RECORDS = 64, 10_000
"""The maximum of epochs and records in a group: for a group of this size, the cost of a delivery is small."""


class _WorkerPool(Protocol):
    """The workers of one start, for the coordinator. `send` and `receive` may raise `WorkerLost`."""

    @property
    def names(self) -> Sequence[str]:
        """The roles, the sequencer last."""
        ...

    def send(self, name: str, message: Message) -> None:
        """Send a message; does not wait for the worker."""
        ...

    def receive(self, seconds: float | None) -> Message | None:
        """Return the next message to the coordinator; None if no message arrived within these seconds."""
        ...


class WorkersFeed:
    """Sends epochs to readers and the sequencer, and receives their results.

    Readers work ahead, because the first steps have no state. State changes only in epochs that are allowed.
    `group_size` returns the number of epochs in the next group, which may change state before the previous group is
    delivered; without `group_size`, one epoch at a time may change state.
    """

    def __init__(
        self,
        pool: _WorkerPool,
        stages: Stages,
        processor: EpochProcessor,
        group_size: Callable[[Sequence[Epoch]], int] | None = None,
    ) -> None:
        self.allowed = 0
        """The epochs before this one may change state."""
        self._pool, self._processor, self._group_size = pool, processor, group_size
        self._readers = pool.names[:-1]
        self._with_state = [*(self._readers if stages.keyed is not None else ()), SEQUENCER]
        self._partitions = PartitionTable()
        self._offered: deque[Epoch] = deque()
        """The epochs that are sent to workers and not finished."""
        self._results: dict[int, EpochResult] = {}
        self._failed: dict[int, Exception] = {}
        """Failures of epochs that were read ahead, by epoch; a failure is raised when its epoch is next."""
        self._requests = 0
        self._replies: list[StateReply] = []
        self._keyed: dict[str, KeyedStore] = {}
        """By step: the state of all keys that the workers have sent."""
        self._rows: dict[tuple[str, str], RowStore] = {}
        """By step and name: the arrays whose changed rows the workers send."""
        self._finished = False

    # ------------------------------------------------------------ the driver's side

    def wants(self, full: bool) -> bool:
        return True

    def offer(self, epoch: Epoch) -> None:
        """Send an epoch to a reader, which reads it and runs the first steps."""
        self._partitions.follow(epoch)
        if not self._offered:
            # Earlier epochs are in the state, or lost; a start may begin with any epoch.
            assert epoch.number >= self.allowed, (epoch.number, self.allowed)
            self.allowed = epoch.number
        self._offered.append(epoch)
        self._pool.send(SEQUENCER, Take(epoch))
        reader = self._readers[epoch.number % len(self._readers)]
        self._pool.send(reader, Read(epoch.number, epoch.at, ranges_of(epoch, self._partitions)))

    def ready(self, seconds: float) -> Sequence[Epoch]:
        """Return the group of epochs that may change state, once they are all processed.

        Without `group_size`, return the next epoch at once: `process` allows it and waits for its result.
        """
        group = self._group()
        if self._offered and not group:
            if self._group_size is None:
                return (self._offered[0],)
            self.work_ahead()
            group = self._group()
        if not group or not self._all_processed(group):
            self._receive(seconds)
            group = self._group()  # an epoch may have failed: the group ends before it
        return group if self._all_processed(group) else ()

    def unfinished(self) -> Sequence[Epoch]:
        self._group_size = None  # no other epoch is allowed to begin
        return self._group()

    def finish(self) -> None:
        self._processor.restore(self.request_states()(), list(self._partitions))
        self._finished = True

    def _group(self) -> list[Epoch]:
        """The offered epochs that may change state, up to the first failed epoch; that epoch is its own group."""
        allowed = list(itertools.takewhile(lambda epoch: epoch.number < self.allowed, self._offered))
        sound = list(itertools.takewhile(lambda epoch: epoch.number not in self._failed, allowed))
        return sound or allowed[:1]

    def _all_processed(self, epochs: Sequence[Epoch]) -> bool:
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
        """Allow the next group of offered epochs to change state."""
        if self._group_size is None:
            return
        waiting = [epoch for epoch in self._offered if epoch.number >= self.allowed]
        epochs = records = 0
        for epoch in waiting[: min(self._group_size(waiting), _GROUP_EPOCHS)]:
            records += epoch.size
            if epochs and records > _GROUP_RECORDS:
                break
            epochs += 1
        if epochs:
            self._allow(waiting[epochs - 1].number + 1)

    def request_states(self) -> Callable[[], States]:
        """Request the state after the epochs allowed so far; the returned call waits for the state."""
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
        sent: dict[str, Mapping[str, Value]] = {}
        for reply in self._replies:
            for step in reply.states.keys() - self._keyed.keys():
                rows = {name: self._rows[step, name].snapshot() for name in reply.dirty.get(step, ())}
                sent[step] = {**sent.get(step, {}), **reply.states[step], **rows}
        return sent | {step: store.snapshot() for step, store in self._keyed.items()}

    def _allow(self, stop: int) -> None:
        if stop > self.allowed:
            for role in self._with_state:
                self._pool.send(role, Allow(self.allowed, stop))
            self.allowed = stop

    # ------------------------------------------------------------ the workers' side

    def _receive(self, seconds: float | None) -> None:
        """Handle one message, if one arrives within these seconds."""
        match self._pool.receive(seconds):
            case None:
                pass
            case Done(result):
                self._results[result.epoch.number] = result
            case StateReply(number) as reply:
                self._keep(reply)
                if number == self._requests:
                    self._replies.append(reply)
            case Failed(error, None):
                raise StepsFailed(error)
            case Failed(error, int(epoch)):
                self._failed[epoch] = error
            case other:
                raise AssertionError(other)

    def _keep(self, reply: StateReply) -> None:
        """Apply the changes of state that is sent in full only once."""
        by_key = {step: dict(state) for step, state in reply.states.items() if isinstance(state, KeyedSnapshot)}
        for step, entries in {**by_key, **reply.changed}.items():
            store = self._keyed.setdefault(step, KeyedStore())
            for key, value in entries.items():
                store.put(key, value)
        for step, arrays in reply.dirty.items():
            for name, sent in arrays.items():
                if isinstance(sent, Rows):
                    self._rows[step, name].put(sent.indices, sent.values)
                else:
                    self._rows[step, name] = RowStore(sent)


def run_with_workers(
    job: Job,
    open_pool: Callable[[Job], AbstractContextManager[_WorkerPool]],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run a job with workers. `open_pool` starts them and returns a context manager that ends them."""
    stages = stages_of(job.graph)

    @contextmanager
    def open_feed(ahead: bool) -> Iterator[WorkersFeed]:
        with open_pool(job) as pool:
            yield WorkersFeed(pool, stages, job.processor, job.lifecycle.group_size if ahead else None)

    reader_steps = [*stages.head, *([stages.keyed] if stages.keyed is not None else [])]
    advice = (
        f"readers run {_names(reader_steps)}, the sequencer {_names(stages.rest)}: check these steps with these "
        "records, and the memory"
    )
    run_with_recovery(job, open_feed, advice, clock)


def _names(steps: Sequence[Node]) -> str:
    return ", ".join(node.name for node in steps) or "none"

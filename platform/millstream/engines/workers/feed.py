"""The feed of a run with workers: the coordinator's side of the exchange with readers and the sequencer."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol

from millstream.engines.job import Job
from millstream.engines.recovery import StepsFailed, run_with_recovery
from millstream.engines.workers.legs import Legs, Place, legs_of
from millstream.engines.workers.messages import (
    Allow,
    Done,
    Failed,
    Finish,
    Finished,
    Message,
    Read,
    Restore,
    Skip,
    StateRequest,
    StateWritten,
    Take,
)
from millstream.engines.workers.role_names import SEQUENCER
from millstream.engines.workers.roles import owned_states
from millstream.log.epochs import Epoch, PartitionName, PartitionTable
from millstream.log.ranges import ranges_of
from millstream.state.background import Background, Task
from millstream.state.layers import Section, Sections
from millstream.state.stored_states import StoredStates
from millstream.steps.outcome import Outcome, total
from millstream.steps.processor import EpochResult

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
        legs: Legs,
        group_size: Callable[[Sequence[Epoch]], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.allowed = 0
        """The epochs before this one may change state."""
        self._pool, self._legs, self._group_size, self._clock = pool, legs, group_size, clock
        self._readers = pool.names[:-1]
        self._with_state = [*(self._readers if legs.keyed else ()), SEQUENCER]
        self._partitions = PartitionTable()
        self._offered: deque[Epoch] = deque()
        """The epochs that are sent to workers and not finished."""
        self._results: dict[int, EpochResult] = {}
        self._failed: dict[int, Exception] = {}
        """Failures of epochs that were read ahead, by epoch; a failure is raised when its epoch is next."""
        self._requests = 0
        self._saving: _Saving | None = None
        """The last request for the state."""
        self._outcomes: list[Outcome] = []

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

    def finish(self) -> Outcome:
        self._outcomes = []
        for role in self._with_state:
            self._pool.send(role, Finish())
        while len(self._outcomes) < len(self._with_state):
            self._receive(None)
        return total(self._outcomes)

    def _group(self) -> list[Epoch]:
        """The offered epochs that may change state, up to the first failed epoch; that epoch is its own group."""
        allowed = list(itertools.takewhile(lambda epoch: epoch.number < self.allowed, self._offered))
        sound = list(itertools.takewhile(lambda epoch: epoch.number not in self._failed, allowed))
        return sound or allowed[:1]

    def _all_processed(self, epochs: Sequence[Epoch]) -> bool:
        return all(epoch.number in self._results or epoch.number in self._failed for epoch in epochs)

    # ------------------------------------------------------------ the lifecycle's side

    def restore(self, states: StoredStates, partitions: Sequence[PartitionName]) -> None:
        self._partitions = PartitionTable(partitions)
        for role in self._with_state:
            owned = owned_states(role, len(self._readers), self._legs, states)
            self._pool.send(role, Restore(owned, partitions))

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

    def save(self, next_layer: Callable[[], str], background: Background) -> Task[Sections]:
        """Request the state after the epochs allowed so far; each role with state writes a layer."""
        self._requests += 1
        self._saving = _Saving(self._requests, len(self._with_state), lambda: self._receive(None), self._clock)
        for role in self._with_state:
            self._pool.send(role, StateRequest(self._requests, next_layer()))
        return self._saving

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
            case StateWritten(number, sections):
                if self._saving is not None and number == self._saving.number:
                    self._saving.add(sections)
            case Finished(outcome):
                self._outcomes.append(outcome)
            case Failed(error, None):
                raise StepsFailed(error)
            case Failed(error, int(epoch)):
                self._failed[epoch] = error
            case other:
                raise AssertionError(other)


class _Saving(Task[Sections]):
    """A request for the state, until all roles with state have written their layers."""

    def __init__(self, number: int, owners: int, receive: Callable[[], None], clock: Callable[[], float]) -> None:
        self.number = number
        self._missing, self._receive, self._clock = owners, receive, clock
        self._began, self._seconds = clock(), 0.0
        self._sections: dict[str, dict[int, Sequence[Section]]] = {}

    @property
    def done(self) -> bool:
        return not self._missing

    @property
    def seconds(self) -> float:
        return self._seconds

    def add(self, sections: Sections) -> None:
        """Add the sections of one role: its shards of its steps."""
        for step, shards in sections.items():
            known = self._sections.setdefault(step, {})
            assert not known.keys() & shards.keys(), f"two owners of a shard of step '{step}'"
            known.update(shards)
        self._missing -= 1
        self._seconds = self._clock() - self._began

    def result(self) -> Sections:
        while self._missing:
            self._receive()
        return self._sections

    def leave(self) -> None:
        """Do nothing: the roles write the layers."""


def run_with_workers(
    job: Job,
    open_pool: Callable[[Job], AbstractContextManager[_WorkerPool]],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run a job with workers. `open_pool` starts them and returns a context manager that ends them."""
    legs = legs_of(job.graph)

    @contextmanager
    def open_feed(ahead: bool) -> Iterator[WorkersFeed]:
        with open_pool(job) as pool:
            yield WorkersFeed(pool, legs, job.lifecycle.group_size if ahead else None, clock)

    advice = (
        f"readers run {_listed(legs.names(Place.READ, Place.KEYED))}, the sequencer {_listed(legs.names(Place.ONE))}: "
        "check these steps with these records, and the memory"
    )
    run_with_recovery(job, open_feed, advice, clock)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

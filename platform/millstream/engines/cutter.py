"""The cutter: reads the ends of the logs, lets the planner decide, and writes the cuts to the epoch log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from millstream.engines.backpressure import Backpressure
from millstream.engines.silence import Silence
from millstream.errors import Contradiction, Truncated
from millstream.log.contracts import Log
from millstream.log.epochs import (
    MOST_EPOCHS,
    Added,
    Decided,
    Ended,
    Epoch,
    EpochLog,
    Event,
    Idle,
    NewModel,
    PartitionName,
    PartitionTable,
    Planner,
    SinkAdded,
    SinkRemoved,
    Skipped,
    Swap,
    Totals,
    in_order,
)
from millstream.timestamps import format_time, wall_clock

__all__ = ["CutEpochs", "Cutter", "Inbox", "LogCutter", "NoEvents", "ReplayCutter"]

_LOGGER = logging.getLogger(__name__)

_CHECK_SECONDS = 0.25
"""The time between two checks for new partitions of a followed source, and for idle and ended ones."""
_LOOKS = 8
"""The least number of looks at a partition, in the silence after which it is idle."""
_URGENT = (Added, Decided, Swap, NewModel)
"""The events for which a bounded run, too, cuts an epoch without records."""
_CLOCK_TOLERANCE = 60_000_000
"""The time, in microseconds, by which a clock may go back without a warning."""


class CutEpochs(Protocol):
    """The epochs of a run that another run replays: those of an `EpochReader`."""

    def epochs(self, first: int | None = None) -> Iterator[Epoch]: ...

    def totals(self) -> Totals: ...


class Inbox(Protocol):
    """Events that are no facts about the logs, for the next epoch."""

    def take(self, totals: Totals) -> Sequence[Event]:
        """Remove and return the events for the epoch `totals.next_epoch`, which is cut at once if there are some."""
        ...


class NoEvents:
    """An inbox that stays empty."""

    def take(self, totals: Totals) -> Sequence[Event]:
        return ()


class Cutter(Protocol):
    """The source of an engine's epochs."""

    def cut(self, now: float) -> Epoch | None:
        """The next epoch, written to the epoch log, if one is due."""
        ...

    @property
    def done(self) -> bool:
        """True when there will be no more epochs in this start."""
        ...

    @property
    def exhausted(self) -> bool:
        """True when the budget is used up; the log may have more records."""
        ...

    @property
    def behind(self) -> int | None:
        """The number of offsets that this start can reach and has not cut, as of the last check; None if unknown."""
        ...


@dataclass
class LogCutter:
    """Cuts the logs of a pipeline.

    With `until_idle`, the cuts end where the logs ended at the first check. `budget` limits the records of this start.
    `idle` has for each source the time, in microseconds, after which a partition that is read to its end and silent is
    idle; with `until_idle`, at once. None, or no entry: never. `wall_clock` returns microseconds since 1970.
    """

    logs: Mapping[str, Log]
    epoch_log: EpochLog
    backpressure: Backpressure
    max_records: int
    max_wait: float
    until_idle: bool
    sinks: Sequence[str] = ()
    budget: int | None = None
    idle: Mapping[str, int | None] = field(default_factory=dict)
    wall_clock: Callable[[], int] = wall_clock
    inbox: Inbox = field(default_factory=NoEvents)
    _events: list[Event] = field(default_factory=list, init=False)
    _added: set[int] = field(default_factory=set, init=False)
    """The partitions that the next epoch adds."""
    _silence: Silence = field(init=False)
    _partitions: PartitionTable = field(init=False)
    _targets: dict[int, int] | None = field(default=None, init=False)
    _planner: Planner = field(init=False)
    _done: bool = field(default=False, init=False)
    _checked_at: float | None = field(default=None, init=False)
    _ends_seen: dict[int, int] | None = field(default=None, init=False)
    _checked_before: bool = field(init=False)
    _warned: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        totals = self.epoch_log.totals
        self._checked_before = totals.next_epoch > 0
        self._partitions = PartitionTable(totals.partitions)
        self._planner = Planner(self.max_records, self.max_wait, dict(totals.positions), self.budget)
        limits = [limit for limit in self.idle.values() if limit is not None]
        self._silence = Silence(self._idle_limit, min([_CHECK_SECONDS, *(limit / _LOOKS / 1e6 for limit in limits)]))
        for rank, partition in enumerate(self._partitions):
            if rank in totals.ended:
                continue
            at = self.logs[partition.source].resume(partition.name, totals.positions[rank])
            if at > totals.positions[rank]:
                self._planner.add(rank, at)
                self._events.append(Skipped(rank, at))
        self._events += _changed_sinks(totals, self.sinks)

    @property
    def exhausted(self) -> bool:
        return self._planner.exhausted

    @property
    def done(self) -> bool:
        return self._done

    @property
    def behind(self) -> int | None:
        if self._ends_seen is None:
            return None
        behind = self._planner.behind(self._ends_seen)
        return behind if self._planner.budget is None else min(behind, self._planner.budget)

    def cut(self, now: float) -> Epoch | None:
        if self._done or not self.backpressure.has_room():
            return None
        look = self._silence.is_look_due(now)
        if self._checked_at is None or (not self.until_idle and now - self._checked_at >= _CHECK_SECONDS):
            self._checked_at, look = now, True
            self._find_partitions()
        ends = self._ends_seen = self._log_ends()
        if look:
            self._silence.look(now, self._unread(ends))
        busy = self.backpressure.in_flight >= MOST_EPOCHS
        planned = self._planner.plan(ends, now, no_more=self.until_idle, busy=busy)
        cut = planned or {}
        self._silence.interrupt(now, cut)
        last = self.until_idle and planned is None
        left = self._partitions_to_leave(ends, cut, ends if look or last else cut)
        self._events += self.inbox.take(self.epoch_log.totals)
        if planned is None and not left and not self._has_urgent_event():
            self._done = self._planner.exhausted or (self.until_idle and self._planner.behind(ends) == 0)
            return None
        return self._write(cut, in_order([*self._events, *left]))

    def _write(self, cut: dict[int, tuple[int, int]], events: tuple[Event, ...]) -> Epoch:
        self._events, self._added = [], set()
        totals = self.epoch_log.totals
        epoch = Epoch(totals.next_epoch, cut, events, self._next_time(totals.at))
        self.backpressure.admit(epoch)
        self.epoch_log.cut(epoch)
        return epoch

    def _next_time(self, before: int) -> int:
        """The time of the next epoch: that of the clock, or of the epoch before, if the clock was set back."""
        now = self.wall_clock()
        if now < before - _CLOCK_TOLERANCE and not self._warned:
            self._warned = True
            _LOGGER.warning(
                "the clock is at %s, and the last epoch was cut at %s: `ahead` counts from the later time until the "
                "clock has passed it",
                format_time(now),
                format_time(before),
            )
        return max(before, now)

    def _has_urgent_event(self) -> bool:
        """True if an event must be written without a record.

        The first position of a partition is decided only once, and an event of the inbox does not wait for records.
        """
        return any(not self.until_idle or isinstance(event, _URGENT) for event in self._events)

    def _find_partitions(self) -> None:
        for source, log in self.logs.items():
            known = {partition.name for partition in self._partitions if partition.source == source}
            joined = bool(known) or self._checked_before
            for partition in log.partitions():
                if partition.name not in known:
                    number = partition.number if partition.number is not None else len(known)
                    known.add(partition.name)
                    name = PartitionName(source, partition.name, number)
                    at = log.beginning(partition.name, joined=joined)
                    rank = self._partitions.add(name)
                    self._planner.add(rank, at)
                    self._events.append(Added(name, at))
                    self._added.add(rank)
        self._checked_before = True

    def _log_ends(self) -> dict[int, int]:
        """The ends of the partitions that have not ended; with `until_idle`, at most those of the first call."""
        gone = self.epoch_log.totals.ended
        ends = {
            rank: self.logs[partition.source].end(partition.name)
            for rank, partition in enumerate(self._partitions)
            if rank not in gone
        }
        if not self.until_idle:
            return ends
        if self._targets is None:
            self._targets = ends
        return {rank: min(end, self._targets[rank]) for rank, end in ends.items() if rank in self._targets}

    def _unread(self, ends: Mapping[int, int]) -> dict[int, bool]:
        """For each partition that may become idle, as its end is current, true if it has records that are not cut."""
        return {
            rank: end > self._planner.positions[rank]
            for rank, end in ends.items()
            if self._idle_limit(rank) is not None
            and rank not in self.epoch_log.totals.idle
            and self.logs[(partition := self._partitions[rank]).source].is_current(partition.name)
        }

    def _partitions_to_leave(
        self, ends: Mapping[int, int], cut: Mapping[int, tuple[int, int]], ranks: Iterable[int]
    ) -> list[Event]:
        """Those of these partitions that the watermark does not wait for after an epoch with this cut."""
        read = [rank for rank in ranks if self._planner.positions[rank] >= ends[rank]]
        ended = [rank for rank in read if self._has_ended(rank)]
        idle = [rank for rank in read if rank not in ended and self._is_idle(rank, cut)]
        return [*map(Idle, idle), *map(Ended, ended)]

    def _idle_limit(self, rank: int) -> int | None:
        return self.idle.get(self._partitions[rank].source)

    def _is_idle(self, rank: int, cut: Mapping[int, tuple[int, int]]) -> bool:
        """True if the partition, read to its end, is idle from the next epoch's boundary on, and was not before."""
        if self._idle_limit(rank) is None or (rank in self.epoch_log.totals.idle and rank not in cut):
            return False
        empty = rank in self._added and rank not in cut
        return self.until_idle or empty or self._silence.is_over_limit(rank)

    def _has_ended(self, rank: int) -> bool:
        """True if the partition is cut to its end and will get no more records."""
        log, name = self.logs[self._partitions[rank].source], self._partitions[rank].name
        return log.ended(name) and self._planner.positions[rank] >= log.end(name)


@dataclass
class ReplayCutter:
    """Copies the epochs of another run's epoch log, up to the last one or up to `last`.

    `bring` copies the version of a model, by its digest, from the run directory of the other run.
    """

    logs: Mapping[str, Log]
    epoch_log: EpochLog
    backpressure: Backpressure
    original: CutEpochs
    sinks: Sequence[str] = ()
    last: int | None = None
    bring: Callable[[str], None] = lambda digest: None
    exhausted: bool = field(default=False, init=False)
    _epochs: Iterator[Epoch] = field(init=False)
    _done: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        own = self.epoch_log.totals
        if self.original.totals().partitions[: len(own.partitions)] != own.partitions:
            self._refuse_cuts()
        self._epochs = self.original.epochs(own.next_epoch)

    @property
    def done(self) -> bool:
        return self._done

    @property
    def behind(self) -> int | None:
        return None

    def cut(self, now: float) -> Epoch | None:
        if self._done or not self.backpressure.has_room():
            return None
        copied = next(self._epochs, None)
        if copied is None or (self.last is not None and copied.number > self.last):
            self._done = True
            return None
        own = self.epoch_log.totals
        if copied.at < own.at:
            self._refuse_cuts()
        positions = own.positions | {event.rank: event.to for event in copied.events if isinstance(event, Skipped)}
        if any(positions.get(rank, start) != start for rank, (start, _) in copied.cut.items()):
            self._refuse_cuts()
        log_events = (e for e in copied.events if not isinstance(e, SinkAdded | SinkRemoved))
        events = in_order([*log_events, *_changed_sinks(own, self.sinks)])
        for event in events:
            if isinstance(event, Added):
                self._check_exists(event.partition)
            elif isinstance(event, NewModel):
                self.bring(event.digest)
        epoch = Epoch(copied.number, copied.cut, events, copied.at)
        partitions = PartitionTable(own.partitions)
        partitions.follow(epoch)
        for rank, (start, _) in epoch.cut.items():
            self._check_reach(partitions[rank], start)
        self.backpressure.admit(epoch)
        self.epoch_log.cut(epoch)
        return epoch

    def _check_reach(self, partition: PartitionName, start: int) -> None:
        """Refuse removed records: a replay without them would be another run."""
        first = self.logs[partition.source].resume(partition.name, start)
        if first > start:
            message = (
                f"{partition.source}/{partition.name}: the replay needs offset {start:,}, "
                f"but the source now begins at {first:,}: "
                "earlier records were removed"
            )
            raise Truncated(message)

    def _refuse_cuts(self) -> NoReturn:
        message = (
            "the cuts in this run directory differ from those of the run to replay; "
            "replay it into a new one (--run DIR), or start over with --fresh"
        )
        raise Contradiction(message)

    def _check_exists(self, partition: PartitionName) -> None:
        log = self.logs.get(partition.source)
        names = [known.name for known in log.partitions()] if log is not None else []
        if partition.name not in names:
            message = (
                f"the replayed run read {partition.source}/{partition.name}, which this config's source does not have; "
                "a replay needs the same sources"
            )
            raise Contradiction(message)


def _changed_sinks(totals: Totals, sinks: Sequence[str]) -> list[Event]:
    """Events for the sinks that a run begins or stops delivering to."""
    removed = [SinkRemoved(sink) for sink in totals.sinks if sink not in sinks]
    return [*removed, *(SinkAdded(sink) for sink in sinks if sink not in totals.sinks)]

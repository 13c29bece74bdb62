"""One simulated run: what is durable of it, its starts, and its way through all crashes to its end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from millstream.config.models import Config
from millstream.engines.cutter import Cutter, LogCutter, ReplayCutter, Throttle
from millstream.engines.job import Job
from millstream.engines.simulated.disk import Disk, SimulatedEpochLog, SimulatedSaver
from millstream.engines.simulated.engine import SimulatedEngine
from millstream.engines.simulated.fate import Died, Victim
from millstream.engines.simulated.graphs import Graphs
from millstream.engines.simulated.history import Durable, History
from millstream.engines.simulated.logs import MemoryLog, Recorded, RecordedPartition
from millstream.engines.simulated.machine import Machine
from millstream.engines.simulated.sinks import Kept, MemorySink
from millstream.engines.workers.recovery import WorkerLost
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.passage import Passage, Plan
from millstream.log.contracts import Log
from millstream.log.epochs import MOST_RECORDS, EpochLog, EpochReader
from millstream.state.checkpoints import Save, SaveStore
from millstream.steps.output_rows import row_schema
from millstream.steps.processing import Processing

__all__ = ["Ended", "Habits", "SimulatedRun"]


@dataclass(frozen=True)
class Habits:
    """How one start of a run goes about it.

    With an `arrival` above 0 a record comes every so many seconds, and the run follows; if not, all are there.
    `in_flight` is how many records may be cut and not yet through.
    """

    workers: int
    max_records: int
    max_wait: float = 0.0
    arrival: float = 0.0
    in_flight: int = MOST_RECORDS
    packing: bool = False


@dataclass(frozen=True)
class Ended:
    """A run that has come to its end: its last start, how many there were, and its last epoch."""

    job: Job
    starts: int
    last: int


class SimulatedRun:
    """A pipeline over recorded records, started again and again until it comes to its end.

    `habits` are asked for at each start. With `replay` it takes the epochs of another run.
    """

    def __init__(
        self,
        config: Config,
        graphs: Graphs,
        records: Recorded,
        machine: Machine,
        folder: Path,
        habits: Callable[[], Habits],
        replay: EpochReader | None = None,
    ) -> None:
        guarantee = config.guarantee
        plan = Plan(Delivery(guarantee.delivery), guarantee.save_every, guarantee.commit_every)
        self.disk = Disk(folder)
        self._config, self._plan, self._records = config, plan, records
        self._graphs, self._machine, self._scheduler = graphs, machine, machine.scheduler
        self._habits, self._replay = habits, replay
        graph = graphs.lend()
        self.kept = {name: Kept(row_schema(output)) for name, output in graph.outputs.items()}
        graphs.take_back(graph)
        self.history: History | None = None
        """Of the deliveries whose results show what has happened."""
        if plan.delivery is not Delivery.EXACTLY_ONCE:
            self.history = History(plan, len(self.kept))

    def to_its_end(self) -> Ended:
        """Start, crash and start again, until a start ends by itself."""
        for start in itertools.count(1):
            job, victim = self._start()
            if victim is None and not job.stop.is_set():
                return Ended(job, start, job.epoch_log.totals.next_epoch - 1)
            self._graphs.take_back(job.graph)
            if victim is not None:
                self._die(victim)
            elif self.history is not None:
                self.history.ended()
        raise AssertionError

    def _start(self) -> tuple[Job, Victim | None]:
        """One start, and who died at its end."""
        habits = self._habits()
        self._scheduler.tell(lambda: f"=== a start: {habits}")
        job = self._job(habits)
        self._machine.asked = job.stop
        victim = None
        try:
            SimulatedEngine(self._machine, self._graphs, packing=habits.packing).run(job)
        except Died as died:
            victim = died.victim
        except WorkerLost as lost:
            reason = str(lost)
            self._scheduler.tell(lambda: f"coordinator: ends, {reason}")
            try:
                job.passage.abandon()
                victim = Victim.COORDINATOR
            except Died as died:
                victim = died.victim
        self._scheduler.clear()
        job.epoch_log.close()
        return job, victim

    def _die(self, victim: Victim) -> None:
        self._crashed()
        if victim is not Victim.POWER:
            return
        self.disk.lose_power(self._scheduler.rng)
        for kept in self.kept.values():
            kept.lose_power(self._scheduler.rng)
        if self.history is not None:
            self.history.lost_commit(self._committed())

    def _crashed(self) -> None:
        """All memory is gone, or that of all workers."""
        if self.history is None:
            return
        newest = SaveStore(self.disk.saves, {}).newest()
        delivered = tuple(kept.last for kept in self.kept.values())
        self.history.crashed(Durable(newest.epoch if newest else -1, self._committed(), delivered))

    def _committed(self) -> int:
        return EpochReader(self.disk.epochs).totals().committed

    # ------------------------------------------------------------ one start

    def _job(self, habits: Habits) -> Job:
        graph, scheduler, machine, history = self._graphs.lend(), self._scheduler, self._machine, self.history
        there = self._there(habits)
        logs = {source: MemoryLog(parts, graph.fields, there) for source, parts in self._records.items()}
        log = SimulatedEpochLog(self.disk, machine, history.committed if history else _nobody)
        throttle = Throttle(max(habits.max_records, MOST_RECORDS - habits.in_flight), scheduler.clock)
        processing, saves = Processing(graph), SaveStore(self.disk.saves, {})

        def began(first: int) -> None:
            if history is not None:
                newest = saves.newest()
                history.began(first, newest.epoch if newest else -1)

        def written(save: Save) -> None:
            if history is not None:
                history.saved(save.number, save.epoch)

        passage = Passage(
            plan=self._plan,
            processing=processing,
            log=log,
            saves=saves,
            sinks={
                name: MemorySink(name, kept, machine, partial(history.delivered, place) if history else _nobody)
                for place, (name, kept) in enumerate(self.kept.items())
            },
            sink_names={name: name for name in self.kept},
            began=began,
            clock=scheduler.clock,
            saver_of=lambda store, done: SimulatedSaver(store, done, self.disk, machine, written),
        )
        config = self._config
        engine = config.engine.model_copy(update={"type": "local", "workers": habits.workers})
        return Job(
            config=config.model_copy(update={"engine": engine}),
            graph=graph,
            sources={},
            places={},
            logs=logs,
            epoch_log=log,
            epoch_folder=self.disk.epochs,
            cutter=self._cutter(habits, logs, log, throttle),
            throttle=throttle,
            processing=processing,
            passage=passage,
            folder=self.disk.epochs.parent,
            stop=_Stop(machine),
            restarted=lambda reason: self._crashed(),
        )

    def _cutter(self, habits: Habits, logs: Mapping[str, Log], log: EpochLog, throttle: Throttle) -> Cutter:
        if self._replay is not None:
            return ReplayCutter(logs, log, throttle, self._replay, list(self.kept))
        follow = habits.arrival > 0
        return LogCutter(
            logs,
            log,
            throttle,
            max_records=habits.max_records,
            max_wait=habits.max_wait,
            until_idle=not follow,
            sinks=list(self.kept),
            budget=self._left(log) if follow else None,
        )

    def _there(self, habits: Habits) -> Callable[[RecordedPartition], int]:
        """How much of a partition there is by now; those that come while it runs begin one after the other."""
        if not habits.arrival:
            return lambda part: part.size
        begins, records = {}, 0
        for parts in self._records.values():
            for part in parts:
                begins[part] = records
                records += part.size // 2
        return lambda part: int(self._scheduler.now / habits.arrival) - begins[part]

    def _left(self, log: EpochLog) -> int:
        """How many offsets are not cut yet."""
        totals, left = log.totals, sum(part.size for parts in self._records.values() for part in parts)
        starts = {
            (source, part.partition.name): part.start for source, parts in self._records.items() for part in parts
        }
        for rank, partition in enumerate(totals.partitions):
            left -= totals.positions[rank] - starts[partition.source, partition.name]
        return left


def _nobody(epoch: int) -> None:
    """Whoever wants to know of effects with exactly_once."""


class _Stop(threading.Event):
    """What a run waits for, by the clock of its machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._machine.scheduler
        until = scheduler.now + (timeout or 0.0)
        self._machine.moment()
        if not scheduler.step(until):
            scheduler.idle(until)
        return self.is_set()

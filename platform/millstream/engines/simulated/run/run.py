"""One simulated run: what is durable of it, its starts, and its way through all crashes to its end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from millstream.config.models import Config
from millstream.engines.cutter import Backpressure, Cutter, LogCutter, ReplayCutter
from millstream.engines.job import Job
from millstream.engines.recovery import WorkerLost
from millstream.engines.simulated.run.engine import SimulatedEngine
from millstream.engines.simulated.run.graphs import Graphs
from millstream.engines.simulated.verdict.history import Durable, History
from millstream.engines.simulated.world.disk import Disk, SimulatedEpochLog, SimulatedSaver
from millstream.engines.simulated.world.faults import Died, Target
from millstream.engines.simulated.world.logs import MemoryLog, Recorded, RecordedPartition
from millstream.engines.simulated.world.sinks import Kept, MemorySink
from millstream.engines.simulated.world.world import World
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.passage import Passage, Plan
from millstream.log.contracts import Log
from millstream.log.epochs import EpochLog, EpochReader
from millstream.log.planner import MOST_RECORDS
from millstream.state.saves import Save, SaveStore
from millstream.steps.processor import EpochProcessor
from millstream.steps.rows import row_schema

__all__ = ["Ended", "SimulatedRun", "StartOptions"]


@dataclass(frozen=True)
class StartOptions:
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
        world: World,
        folder: Path,
        habits: Callable[[], StartOptions],
        replay: EpochReader | None = None,
    ) -> None:
        guarantee = config.guarantee
        plan = Plan(Delivery(guarantee.delivery), guarantee.save_every, guarantee.commit_every)
        self.disk = Disk(folder)
        self._config, self._plan, self._records = config, plan, records
        self._graphs, self._world, self._scheduler = graphs, world, world.scheduler
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
            job, target = self._start()
            if target is None and not job.stop.is_set():
                return Ended(job, start, job.epoch_log.totals.next_epoch - 1)
            self._graphs.take_back(job.graph)
            if target is not None:
                self._die(target)
            elif self.history is not None:
                self.history.ended()
        raise AssertionError

    def _start(self) -> tuple[Job, Target | None]:
        """One start, and who died at its end."""
        habits = self._habits()
        self._scheduler.tell(lambda: f"=== a start: {habits}")
        job = self._job(habits)
        self._world.asked = job.stop
        target = None
        try:
            SimulatedEngine(self._world, self._graphs, packing=habits.packing).run(job)
        except Died as died:
            target = died.target
        except WorkerLost as lost:
            reason = str(lost)
            self._scheduler.tell(lambda: f"coordinator: ends, {reason}")
            try:
                job.passage.abandon()
                target = Target.COORDINATOR
            except Died as died:
                target = died.target
        self._scheduler.clear()
        job.epoch_log.close()
        return job, target

    def _die(self, target: Target) -> None:
        self._crashed()
        if target is not Target.POWER:
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

    def _job(self, habits: StartOptions) -> Job:
        graph, scheduler, world, history = self._graphs.lend(), self._scheduler, self._world, self.history
        there = self._there(habits)
        logs = {source: MemoryLog(parts, graph.fields, there) for source, parts in self._records.items()}
        log = SimulatedEpochLog(self.disk, world, history.committed if history else _nobody)
        throttle = Backpressure(max(habits.max_records, MOST_RECORDS - habits.in_flight), scheduler.clock)
        processing, saves = EpochProcessor(graph), SaveStore(self.disk.saves, {})

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
                name: MemorySink(name, kept, world, partial(history.delivered, place) if history else _nobody)
                for place, (name, kept) in enumerate(self.kept.items())
            },
            sink_names={name: name for name in self.kept},
            began=began,
            clock=scheduler.clock,
            saver_of=lambda store, done: SimulatedSaver(store, done, self.disk, world, written),
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
            stop=_Stop(world),
            restarted=lambda reason: self._crashed(),
        )

    def _cutter(self, habits: StartOptions, logs: Mapping[str, Log], log: EpochLog, throttle: Backpressure) -> Cutter:
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

    def _there(self, habits: StartOptions) -> Callable[[RecordedPartition], int]:
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
    """What a run waits for, by the clock of its world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._world.scheduler
        until = scheduler.now + (timeout or 0.0)
        self._world.step()
        if not scheduler.step(until):
            scheduler.idle(until)
        return self.is_set()

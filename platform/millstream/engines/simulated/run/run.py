"""One simulated run: its durable parts, and its starts, until a start ends without a crash."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from millstream.config.models import Config
from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import CutEpochs, Inbox
from millstream.engines.job import CutOptions, Job, Storage, delivery_plan, make_job
from millstream.engines.simulated.run.engine import SimulatedEngine
from millstream.engines.simulated.run.history import Durable, History
from millstream.engines.simulated.world.background import SimulatedBackground
from millstream.engines.simulated.world.disk import Disk, SimulatedEpochLog
from millstream.engines.simulated.world.faults import Died, Target
from millstream.engines.simulated.world.files import SimulatedFiles
from millstream.engines.simulated.world.graphs import Graphs
from millstream.engines.simulated.world.logs import MemoryLog, Recorded, RecordedPartition
from millstream.engines.simulated.world.sinks import MemorySink, SinkContent
from millstream.engines.simulated.world.world import World
from millstream.errors import WorkerLost
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.lifecycle import PAUSE
from millstream.log.epochs import MOST_RECORDS, EpochLog, EpochReader, Totals
from millstream.state.checkpoints import Checkpoint, CheckpointReader, CheckpointStore
from millstream.state.layers import Layers
from millstream.state.version_store import VersionStore
from millstream.steps.output_rows import row_schema
from millstream.steps.processor import EpochResult

__all__ = ["FinishedRun", "SimulatedRun", "StartOptions"]


_EXPIRES = 0.3
"""The share of crashes after which a sink that does not keep its rows has lost them."""
_RESTORED = 0.3
"""The share of crashes after which such a sink has an old copy of its content."""


@dataclass(frozen=True)
class StartOptions:
    """The options of one start of a run.

    With an `arrival` above 0, a record arrives every `arrival` seconds, and the run follows its sources. With 0, all
    records exist from the beginning. `in_flight` is the number of records that may be cut and not yet finished. `keep`
    is that of the config, in microseconds. In a run that follows its sources, a partition is idle after `idle`
    microseconds; `pause` is the time, in seconds, in which no record arrives in the first partition of each source.
    `rest` is the pause after a checkpoint, in multiples of its duration.
    """

    workers: int
    max_records: int
    max_wait: float = 0.0
    arrival: float = 0.0
    in_flight: int = MOST_RECORDS
    packing: bool = False
    keep: int | None = None
    idle: int | None = None
    pause: tuple[float, float] = (0.0, 0.0)
    rest: float = PAUSE


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended by itself: the job of its last start, the number of its starts, and its last epoch."""

    job: Job
    starts: int
    last: int


class SimulatedRun:
    """A pipeline over recorded records, started again after every crash until a start ends by itself.

    `options` is called at each start. With `replay`, the run takes the epochs of another run, perhaps from a base on:
    then its epoch log begins with the totals `begin`. `expiring` are the outputs whose sinks do not keep their rows,
    and `restored` those whose sinks may be put back from a copy.
    `versions` has the versions of models for the events of the `inbox`, and for those of the replayed run.
    `began` is the wall clock at the beginning of the simulation, in microseconds since 1970.
    """

    def __init__(
        self,
        config: Config,
        graphs: Graphs,
        records: Recorded,
        world: World,
        folder: Path,
        options: Callable[[], StartOptions],
        replay: CutEpochs | None = None,
        begin: Totals | None = None,
        expiring: Collection[str] = (),
        restored: Collection[str] = (),
        began: int = 0,
        versions: VersionStore | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        plan = delivery_plan(config)
        self.disk = Disk(folder)
        self._config, self._records = config, records
        self._graphs, self._world, self._scheduler = graphs, world, world.scheduler
        self._options, self._replay, self._begin, self._began = options, replay, begin, began
        self._versions, self._inbox = versions or VersionStore(folder / "models"), inbox
        graph = graphs.lend()
        self.contents = {
            name: SinkContent(row_schema(output), expires=name in expiring, restored=name in restored)
            for name, output in graph.outputs.items()
        }
        graphs.take_back(graph)
        self.history: History | None = None
        """The effects of the crashes; None with exactly_once, whose results show no crash."""
        if plan.delivery is not Delivery.EXACTLY_ONCE:
            self.history = History(plan, len(self.contents))

    def run_to_end(self) -> FinishedRun:
        """Start, crash and start again, until a start ends by itself."""
        for start in itertools.count(1):
            job, target = self._start()
            if target is None and not job.stop.is_set():
                return FinishedRun(job, start, job.epoch_log.totals.next_epoch - 1)
            self._graphs.take_back(job.graph)
            if target is not None:
                self._die(target)
            elif self.history is not None:
                self.history.ended()
        raise AssertionError

    def _start(self) -> tuple[Job, Target | None]:
        """Run one start; return its job and the target of the fault that ended it."""
        options = self._options()
        self._scheduler.trace(lambda: f"=== a start: {options}")
        job = self._job(options)
        self._world.asked = job.stop
        target = None
        try:
            SimulatedEngine(self._world, self._graphs, self.disk.checkpoint_files, packing=options.packing).run(job)
        except Died as died:
            target = died.target
        except WorkerLost as lost:
            reason = str(lost)
            self._scheduler.trace(lambda: f"coordinator: ends, {reason}")
            try:
                job.lifecycle.abandon()
                target = Target.COORDINATOR
            except Died as died:
                target = died.target
        self._scheduler.clear()
        job.epoch_log.close()
        return job, target

    def _die(self, target: Target) -> None:
        self._crashed()
        for content in self.contents.values():
            content.crash(self._scheduler.rng)
        if target is Target.POWER:
            self.disk.lose_power(self._scheduler.rng)
            if self.history is not None:
                newest = self._newest()
                self.history.lost_lines(
                    self._totals().committed, newest.number if newest else -1, newest.epoch if newest else -1
                )
        self._expire(target)
        self._restore()

    def _expire(self, target: Target) -> None:
        """Perhaps remove what a sink does not keep: rows that are older than the newest checkpoint.

        Rows expire after hours at least. By then the system has written the line of the checkpoint to the disk, synced
        or not; after a loss of power, all lines that are left are on the disk anyway.
        """
        newest = self._newest()
        if newest is None:
            return
        made = self._totals().last_rows
        for name, content in self.contents.items():
            if content.expires and made.get(name, -1) <= newest.epoch and self._scheduler.rng.random() < _EXPIRES:
                content.expire()
                if target is not Target.POWER:
                    self.disk.mark_synced()

    def _restore(self) -> None:
        """Perhaps put sinks back from a copy that is not older than the base."""
        base = self._totals().base.epoch
        for name, content in self.contents.items():
            if content.restored and self._scheduler.rng.random() < _RESTORED:
                content.restore(self._scheduler.rng, base)
                self._scheduler.trace(lambda name=name, last=content.last: f"{name} is put back to epoch {last}")  # type: ignore[misc]

    def _crashed(self) -> None:
        """Record a crash: all memory is gone, or the memory of all workers."""
        if self.history is None:
            return
        newest = self._newest()
        delivered = tuple(content.last for content in self.contents.values())
        self.history.crashed(
            Durable(
                newest.epoch if newest else -1,
                self._totals().committed,
                delivered,
                newest.number if newest else -1,
            )
        )

    def _totals(self) -> Totals:
        return EpochReader(self.disk.epochs).totals()

    def _newest(self) -> Checkpoint | None:
        return CheckpointReader(self.disk.folder, self._totals().checkpoint).newest()

    # ------------------------------------------------------------ one start

    def _job(self, options: StartOptions) -> Job:
        graph, scheduler, world, history = self._graphs.lend(), self._scheduler, self._world, self.history
        size_of = self._size_of(options)
        log = SimulatedEpochLog(self.disk, world, self._wrote if history else _ignore, self._begin)
        storage = Storage(
            folder=self.disk.folder,
            logs={source: MemoryLog(parts, graph.fields, size_of) for source, parts in self._records.items()},
            epoch_log=log,
            checkpoints=CheckpointStore(
                self.disk.folder, {}, log.totals.checkpoint, self._layers(), options.keep, self._wall_clock
            ),
            sinks={
                name: MemorySink(name, content, world, partial(history.delivered, index) if history else _ignore)
                for index, (name, content) in enumerate(self.contents.items())
            },
            sink_keys={name: name for name in self.contents},
            contexts={},
            versions=self._versions,
        )
        follow = options.arrival > 0
        size = self._config.engine.epoch.model_copy(update={"max_records": options.max_records})
        changed = {"type": "local", "workers": options.workers, "epoch": size}
        engine = self._config.engine.model_copy(update=changed)
        config = self._config.model_copy(update={"engine": engine, "keep": options.keep})
        return make_job(
            config.with_idle(options.idle) if follow else config,
            graph,
            storage,
            CutOptions(
                options.max_records, options.max_wait, not follow, self._left(log) if follow else None, self._replay
            ),
            stop=_Stop(world),
            observe=lambda cutter, backpressure: _Observer(history, storage.checkpoints, self._crashed),
            backpressure=Backpressure(max(options.max_records, MOST_RECORDS - options.in_flight), scheduler.clock),
            clock=scheduler.clock,
            wall_clock=self._wall_clock,
            pause=options.rest,
            inbox=self._inbox,
        )

    def _layers(self) -> Layers:
        """The layers of one start, whose coordinator writes in the background."""
        background = SimulatedBackground(self._scheduler, "coordinator")
        self._scheduler.join(background)
        files = SimulatedFiles(self.disk.checkpoint_files, self._world, "coordinator")
        return Layers(self.disk.folder / "layers", self._config.guarantee.shards, files, background)

    def _wall_clock(self) -> int:
        return self._began + int(self._scheduler.now * 1e6)

    def _wrote(self, line: Mapping[str, Any]) -> None:
        """Take a line of the epoch log into the history."""
        if self.history is not None and "checkpoint" in line:
            self.history.checkpointed(line["checkpoint"], line["epoch"])
        elif self.history is not None and "commit" in line:
            self.history.committed(line["commit"])

    def _size_of(self, options: StartOptions) -> Callable[[RecordedPartition], int]:
        """A function that returns the present size of a partition; arriving partitions begin in turn."""
        if not options.arrival:
            return lambda part: part.size
        first_records, records = {}, 0
        for parts in self._records.values():
            for part in parts:
                first_records[part] = records
                records += part.size // 2
        paused = {parts[0] for parts in self._records.values() if parts}
        begin, end = options.pause

        def size(part: RecordedPartition) -> int:
            now = self._scheduler.now
            arrived = begin if part in paused and begin <= now < end else now
            return int(arrived / options.arrival) - first_records[part]

        return size

    def _left(self, log: EpochLog) -> int:
        """The number of offsets that are not cut yet."""
        totals, left = log.totals, sum(part.size for parts in self._records.values() for part in parts)
        starts = {
            (source, part.partition.name): part.start for source, parts in self._records.items() for part in parts
        }
        for rank, partition in enumerate(totals.partitions):
            left -= totals.positions[rank] - starts[partition.source, partition.name]
        return left


class _Observer:
    """Adds the starts of a run to its history, and adds the losses of workers as crashes."""

    def __init__(self, history: History | None, checkpoints: CheckpointStore, crashed: Callable[[], None]) -> None:
        self._history, self._checkpoints, self._crashed = history, checkpoints, crashed

    def started(self, first: int) -> None:
        if self._history is not None:
            newest = self._checkpoints.newest()
            self._history.began(first, newest.number if newest else -1, newest.epoch if newest else -1)

    def finished_epoch(self, result: EpochResult) -> None: ...

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None: ...

    def restarted(self, reason: str) -> None:
        self._crashed()


def _ignore(effect: object) -> None:
    """With exactly_once, effects have no history."""


class _Stop(threading.Event):
    """A stop event that waits on the simulated clock."""

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

"""The job of an engine: all objects of one start of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from millstream.config.models import Config
from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import CutEpochs, Cutter, Inbox, LogCutter, NoEvents, ReplayCutter
from millstream.guarantees.builds import BuildCheck
from millstream.guarantees.contracts import LifecycleObserver
from millstream.guarantees.crash_point import Armed
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.lifecycle import PAUSE, DeliveryPlan, EpochLifecycle
from millstream.log.contracts import Log, OpenContext, Sink
from millstream.log.epochs import Epoch, EpochLog
from millstream.redaction import Secrets
from millstream.state.checkpoints import CheckpointStore
from millstream.state.version_store import VersionStore
from millstream.steps.graph import Graph
from millstream.steps.outcome import Outcome
from millstream.steps.processor import EpochProcessor
from millstream.timestamps import wall_clock

__all__ = ["CutOptions", "Engine", "Job", "Storage", "delivery_plan", "make_job"]


@dataclass
class Job:
    """One start of a run. Setting `stop` ends the run after the epochs in progress.

    `processor` runs the steps of this process; other processes keep the `secrets` out of their errors. `outcome` is
    that of all processes, after a clean end.
    """

    config: Config
    graph: Graph
    contexts: Mapping[str, OpenContext]
    logs: Mapping[str, Log]
    epoch_log: EpochLog
    cutter: Cutter
    backpressure: Backpressure
    processor: EpochProcessor
    lifecycle: EpochLifecycle
    folder: Path
    stop: threading.Event
    versions: VersionStore
    secrets: Secrets = field(default_factory=Secrets)
    outcome: Outcome = field(default_factory=Outcome)

    def cut_epochs(self, first: int) -> Iterator[Epoch]:
        """The epochs from `first` on that are already cut, read as they are taken; `Truncated` if records are gone.

        There may be many of them: a fork has all that it replays.
        """
        self.backpressure.clear()
        totals = self.epoch_log.totals
        if first >= totals.next_epoch:
            return iter(())
        starts: dict[int, int] = {}
        for epoch in self.epoch_log.reader().epochs(first):
            for rank, (start, _) in epoch.cut.items():
                starts.setdefault(rank, start)
        for rank, start in starts.items():
            partition = totals.partitions[rank]
            self.logs[partition.source].resume(partition.name, start)
        return self._admitted(self.epoch_log.reader().epochs(first))

    def _admitted(self, epochs: Iterator[Epoch]) -> Iterator[Epoch]:
        for epoch in epochs:
            self.backpressure.admit(epoch)
            yield epoch


class Engine(Protocol):
    """Takes a job's epochs in order through its lifecycle, until the cutter is done or `stop` is set."""

    def run(self, job: Job) -> None: ...


@dataclass(frozen=True)
class Storage:
    """The durable parts of a run, opened for one start: its logs, epoch log, checkpoints, sinks and versions of models.

    `contexts` has the context with which each log was opened, `sink_keys` the name of each sink in the epoch log.
    """

    folder: Path
    logs: Mapping[str, Log]
    epoch_log: EpochLog
    checkpoints: CheckpointStore
    sinks: Mapping[str, Sink]
    sink_keys: Mapping[str, str]
    contexts: Mapping[str, OpenContext]
    versions: VersionStore


@dataclass(frozen=True)
class CutOptions:
    """Options for the cuts of one start.

    The logs are cut up to their present ends (`until_idle`) or as they grow; with `replay`, the cuts are those of
    another run, whose versions of models are `replayed`, up to its epoch `last`. `budget` limits the records of this
    start.
    """

    max_records: int
    max_wait: float
    until_idle: bool
    budget: int | None = None
    replay: CutEpochs | None = None
    replayed: VersionStore | None = None
    last: int | None = None

    def cutter(
        self,
        storage: Storage,
        backpressure: Backpressure,
        idle: Mapping[str, int | None],
        wall_clock: Callable[[], int] = wall_clock,
        inbox: Inbox | None = None,
    ) -> Cutter:
        sinks = list(storage.sink_keys.values())
        if self.replay is not None:
            bring = partial(storage.versions.bring, other=self.replayed or storage.versions)
            return ReplayCutter(storage.logs, storage.epoch_log, backpressure, self.replay, sinks, self.last, bring)
        return LogCutter(
            storage.logs,
            storage.epoch_log,
            backpressure,
            max_records=self.max_records,
            max_wait=self.max_wait,
            until_idle=self.until_idle,
            sinks=sinks,
            budget=self.budget,
            idle=idle,
            wall_clock=wall_clock,
            inbox=inbox or NoEvents(),
        )


def delivery_plan(config: Config) -> DeliveryPlan:
    """The delivery plan of a config."""
    guarantee = config.guarantee
    return DeliveryPlan(Delivery(guarantee.delivery), guarantee.checkpoint_every, guarantee.commit_every, config.keep)


def make_job(
    config: Config,
    graph: Graph,
    storage: Storage,
    cuts: CutOptions,
    *,
    stop: threading.Event,
    observe: Callable[[Cutter, Backpressure], LifecycleObserver],
    crash: Armed | None = None,
    backpressure: Backpressure | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], int] = wall_clock,
    pause: float = PAUSE,
    secrets: Secrets | None = None,
    build: BuildCheck | None = None,
    inbox: Inbox | None = None,
) -> Job:
    """Make a job. `observe` returns the observer of its lifecycle. Epochs and the base have times of `wall_clock`."""
    backpressure = backpressure or Backpressure(cuts.max_records, clock)
    idle = {source.name: source.times.idle for source in config.logs}
    cutter = cuts.cutter(storage, backpressure, idle, wall_clock, inbox)
    lifecycle = EpochLifecycle(
        plan=delivery_plan(config),
        log=storage.epoch_log,
        checkpoints=storage.checkpoints,
        sinks=storage.sinks,
        sink_keys=storage.sink_keys,
        versions=storage.versions,
        crash=crash,
        observer=observe(cutter, backpressure),
        clock=clock,
        wall_clock=wall_clock,
        pause=pause,
        build=build or BuildCheck(),
    )
    return Job(
        config=config,
        graph=graph,
        contexts=storage.contexts,
        logs=storage.logs,
        epoch_log=storage.epoch_log,
        cutter=cutter,
        backpressure=backpressure,
        processor=EpochProcessor(graph, versions=storage.versions),
        lifecycle=lifecycle,
        folder=storage.folder,
        stop=stop,
        versions=storage.versions,
        secrets=secrets or Secrets(),
    )

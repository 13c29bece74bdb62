"""The simulation of one pipeline: a seed becomes a schedule, and each schedule is run and checked."""

from __future__ import annotations

import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from millstream.config.models import Config
from millstream.engines.simulated.run.run import FinishedRun, SimulatedRun, StartOptions
from millstream.engines.simulated.run.shadows import RandomShadows, trained_versions
from millstream.engines.simulated.verdict.checker import (
    differences_by_history,
    differences_exactly_once,
    differences_since_base,
)
from millstream.engines.simulated.verdict.golden import (
    AllEpochs,
    Golden,
    ReferenceRuns,
    epochs_key,
    golden_run,
    golden_since_base,
)
from millstream.engines.simulated.world.faults import FaultPlan, Target, planned_faults
from millstream.engines.simulated.world.graphs import Graphs
from millstream.engines.simulated.world.logs import Recorded, greatest_time
from millstream.engines.simulated.world.scheduler import Scheduler
from millstream.engines.simulated.world.world import World
from millstream.guarantees.lifecycle import PAUSE
from millstream.log.epochs import EpochReader
from millstream.records import TIME
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoints import CheckpointReader
from millstream.state.digests import states_digest
from millstream.state.version_store import VersionStore

__all__ = ["Outcome", "Simulation"]

_KEPT_GOLDENS = 16
_EPOCHS = (2, 3, 5, 7, 10)
"""The possible numbers of epochs of a schedule."""
_ARRIVALS = (0.001, 0.003, 0.006)
"""Seconds until all records have arrived, in schedules whose records arrive during the run."""
_KEEPS = (None, 1, 100, 1000)
"""The possible values of `keep`, in microseconds: a schedule takes some milliseconds of simulated time."""
_EXPIRING = 0.3
"""The share of sinks that do not keep their rows, with exactly_once."""
_RESTORED = 0.5
"""The share of schedules in which the sink of predictions may be put back from a copy, with exactly_once."""
_STALL_LIMIT = 20_000
"""The number of steps without progress that is allowed: more than any schedule needs."""
_FOLLOWS = 0.3
"""The share of schedules whose records arrive during the run."""
_IDLE = (0, 20, 100, 400, None)
"""Microseconds after which a partition is idle, in such schedules."""
_AHEAD = 0.15
"""The share of schedules in which some records may be ahead of the clock."""
_CHANGES = 0.3
"""The share of starts whose options differ from those of the previous start."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one schedule. `wrong` has a line for each difference from the promise of the delivery."""

    seed: int
    wrong: tuple[str, ...]
    injected: Mapping[Target, int]
    starts: int
    epochs: int
    steps: int


class Simulation:
    """Runs schedules of a pipeline over recorded records, one after the other, with their disks in a folder."""

    def __init__(self, config: Config, records: Recorded, folder: Path) -> None:
        fields = [field for source in config.logs for field in source.config.fields]
        self._config, self._records = config, records
        self._graphs = Graphs(config, fields)
        self._size = sum(part.size for parts in records.values() for part in parts)
        self._greatest_time = greatest_time(records)
        self._ahead = min((time.ahead for time in config.source_times.values() if time.ahead is not None), default=None)
        self._goldens: dict[str, Golden] = {}
        self._folder = folder
        self._versions = VersionStore(folder / "versions")
        trained = trained_versions(config, self._graphs, records)
        self._digests = {step: self._versions.put(version) for step, version in trained.items()}

    def run(self, seed: int, trace: Callable[[str], None] | None = None) -> Outcome:
        """Run the schedule of a seed, which is always the same."""
        rng = random.Random(seed)
        epochs = rng.choice(_EPOCHS)
        plan = FaultPlan(planned_faults(rng, steps=60 * epochs, effects=31 * epochs))
        scheduler = Scheduler(rng, None if trace is None else lambda line: trace(f"seed {seed}  {line}"), _STALL_LIMIT)
        folder = self._folder / "run"
        options = self._options(rng, epochs)
        world = World(scheduler, plan)
        guarded = self._config.guarantee.delivery == "exactly_once"
        expiring = [name for name in ("rejects", "topics") if guarded and rng.random() < _EXPIRING]
        restored = ["predictions"] if guarded and rng.random() < _RESTORED else []
        run = SimulatedRun(
            self._config,
            self._graphs,
            self._records,
            world,
            folder,
            lambda: next(options),
            expiring=expiring,
            restored=restored,
            began=self._wall_clock(rng),
            versions=self._versions,
            inbox=RandomShadows(rng, self._digests),
        )
        ended: FinishedRun | None = None
        try:
            ended = run.run_to_end()
            wrong = tuple(self._differences(run, ended))
        except Exception as error:
            wrong = (f"{type(error).__name__}: {error}",)
            raised = "".join(traceback.format_exception(error))
            scheduler.trace(lambda: raised)
        finally:
            if ended is not None:
                ended.job.epoch_log.close()
                self._graphs.take_back(ended.job.graph)
            shutil.rmtree(folder, ignore_errors=True)
        for line in wrong:
            scheduler.trace(lambda line=line: f"WRONG: {line}")  # type: ignore[misc]
        return Outcome(
            seed,
            wrong,
            Counter(plan.injected),
            ended.starts if ended else 0,
            ended.last + 1 if ended else 0,
            scheduler.steps,
        )

    def _wall_clock(self, rng: random.Random) -> int:
        """The wall clock at the beginning: no record is ahead of this clock, or some records are."""
        if self._ahead is None or rng.random() >= _AHEAD:
            return self._greatest_time
        parts = [part.records for parts in self._records.values() for part in parts if part.size]
        return max(0, (rng.choice(rng.choice(parts)[TIME].to_pylist()) or 0) - self._ahead)

    def _options(self, rng: random.Random, epochs: int) -> Iterator[StartOptions]:
        size = max(1, self._size // epochs)
        follow = rng.random() < _FOLLOWS
        arriving, pause = rng.choice(_ARRIVALS), sorted((rng.random(), rng.random()))
        options = StartOptions(
            workers=rng.choice((1, 2, 2, 3, 3, 4)),
            max_records=size,
            max_wait=rng.choice((0.0, 0.0005, 0.005)),
            arrival=arriving / self._size if follow else 0.0,
            in_flight=rng.choice((size, 3 * size, 100_000)),
            packing=rng.random() < 0.25,
            keep=rng.choice(_KEEPS),
            idle=rng.choice(_IDLE),
            pause=(arriving * pause[0], arriving * pause[1]),
            rest=rng.choice((0, 0, PAUSE)),
        )
        while True:
            yield options
            if rng.random() < _CHANGES:
                options = replace(
                    options, workers=rng.choice((1, 2, 3, 4)), max_records=max(1, size * rng.choice((1, 2, 3)) // 2)
                )

    def _differences(self, run: SimulatedRun, ended: FinishedRun) -> Iterator[str]:
        epochs, base = AllEpochs(run.disk), EpochReader(run.disk.epochs).base.epoch
        reader = CheckpointReader(run.disk.folder, epochs.totals().checkpoint)
        newest = reader.newest()
        applied = newest.applied if newest else AppliedEpochs()  # with at_most_once a run may have no checkpoint
        if run.history is None:
            if states_digest(reader.states(newest) if newest else {}) != ended.job.outcome.digest:
                yield "the state in the newest checkpoint is not that of the workers"
            golden = self._golden(epochs)
            yield from differences_exactly_once(ended, run.contents, applied, golden)
            if base >= 0:
                tail = golden_since_base(
                    self._config, self._graphs, self._records, run.disk, self._folder / "tail", self._versions
                )
                yield from differences_since_base(ended, run.contents, golden, tail)
                shutil.rmtree(self._folder / "tail")
            return
        references = ReferenceRuns(epochs, self._graphs, self._records, self._versions)
        yield from differences_by_history(ended, run.contents, run.history, applied, references)

    def _golden(self, epochs: AllEpochs) -> Golden:
        settled = 0 if self._ahead is None else max(0, self._greatest_time - self._ahead)
        key = epochs_key(epochs, settled)
        golden = self._goldens.pop(key, None)
        if golden is None:
            folder = self._folder / "golden"
            golden = golden_run(self._config, self._graphs, self._records, epochs, folder, self._versions)
            shutil.rmtree(folder)
        if len(self._goldens) == _KEPT_GOLDENS:
            self._goldens.pop(next(iter(self._goldens)))
        self._goldens[key] = golden  # now the most recently used one
        return golden

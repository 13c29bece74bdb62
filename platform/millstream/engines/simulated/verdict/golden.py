"""The reference runs of a simulated run: the same epochs in one process, without faults."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from millstream.config.models import Config
from millstream.engines.cutter import CutEpochs
from millstream.engines.simulated.run.history import Sequenced
from millstream.engines.simulated.run.run import SimulatedRun, StartOptions
from millstream.engines.simulated.world.disk import Disk
from millstream.engines.simulated.world.graphs import Graphs
from millstream.engines.simulated.world.logs import MemoryLog, Recorded
from millstream.engines.simulated.world.scheduler import Scheduler
from millstream.engines.simulated.world.world import World
from millstream.log.epochs import Epoch, EpochReader, EpochReceipt, Totals
from millstream.log.ranges import ranges_of, read_table, records_schema
from millstream.state.checkpoints import CheckpointReader
from millstream.state.version_store import VersionStore
from millstream.steps.outcome import Outcome
from millstream.steps.processor import EpochProcessor

__all__ = ["Golden", "ReferenceRuns", "epochs_key", "golden_run"]

_NEVER = 1_000_000


@dataclass(frozen=True)
class Golden:
    """A golden run (without faults): its outcome, its rows, and the totals and the receipts of its epoch log."""

    outcome: Outcome
    rows: Mapping[str, pa.Table]
    totals: Totals
    receipts: Mapping[int, EpochReceipt]


class AllEpochs:
    """All epochs of a run, also those that its epoch log has dropped."""

    def __init__(self, disk: Disk) -> None:
        reader = EpochReader(disk.epochs)
        left = {epoch.number: epoch for epoch in reader.epochs()}
        self._epochs = {**{number: epoch for number, epoch in disk.dropped.items() if number not in left}, **left}
        self._totals = reader.totals()

    def epochs(self, first: int | None = None) -> Iterator[Epoch]:
        return (self._epochs[number] for number in sorted(self._epochs) if number >= (first or 0))

    def totals(self) -> Totals:
        return self._totals


def epochs_key(epochs: AllEpochs, settled: int) -> str:
    """A key that is equal for runs of the same epochs. From the time `settled` on, no record is ahead of the clock."""
    return json.dumps([replace(epoch, at=min(epoch.at, settled)).line() for epoch in epochs.epochs()])


def golden_since_base(
    config: Config, graphs: Graphs, records: Recorded, disk: Disk, folder: Path, versions: VersionStore
) -> Golden:
    """Replay the epochs of a run since its base without faults, from the checkpoint of the base."""
    epochs = EpochReader(disk.epochs)
    begin = epochs.base_totals()
    assert begin.base.checkpoint is not None, "this log begins after a base"
    checkpoints = CheckpointReader(disk.folder, begin.checkpoint)
    checkpoints.copy(checkpoints.numbered(begin.base.checkpoint), folder)
    return golden_run(config, graphs, records, epochs, folder, versions, begin)


def golden_run(
    config: Config,
    graphs: Graphs,
    records: Recorded,
    epochs: CutEpochs,
    folder: Path,
    versions: VersionStore,
    begin: Totals | None = None,
) -> Golden:
    """Replay the epochs of a run without faults, in a temporary folder."""
    guarantee = config.guarantee.model_copy(
        update={"delivery": "exactly_once", "checkpoint_every": _NEVER, "commit_every": _NEVER}
    )
    world = World(Scheduler(random.Random(0)))
    alone = config.model_copy(update={"guarantee": guarantee})
    run = SimulatedRun(
        alone, graphs, records, world, folder, lambda: StartOptions(1, 1), epochs, begin, versions=versions
    )
    job = run.run_to_end().job
    rows = {name: content.rows() for name, content in run.contents.items()}
    receipts = {receipt.epoch: receipt for receipt in job.epoch_log.reader().receipts()}
    golden = Golden(job.outcome, rows, job.epoch_log.totals, receipts)
    graphs.take_back(job.graph)
    return golden


class ReferenceRuns:
    """The results of one process for epochs in any order; an epoch may come twice or be lost."""

    def __init__(self, epochs: AllEpochs, graphs: Graphs, records: Recorded, versions: VersionStore) -> None:
        self._graphs, self._versions = graphs, versions
        self._epochs = {epoch.number: epoch for epoch in epochs.epochs()}
        self._partitions = epochs.totals().partitions
        self._records = records
        self._rows: dict[Sequenced, Mapping[str, pa.Table]] = {}

    def rows(self, sequence: Sequenced) -> Mapping[str, pa.Table]:
        """The rows of the last epoch of the sequence."""
        if sequence not in self._rows:
            self.outcome(sequence)
        return self._rows[sequence]

    def outcome(self, sequence: Sequenced) -> Outcome:
        """The outcome of all epochs of the sequence."""
        graph = self._graphs.lend()
        schema = records_schema(graph.fields)
        logs = {source: MemoryLog(parts, graph.fields) for source, parts in self._records.items()}
        processor = EpochProcessor(graph, versions=self._versions)
        processor.restore({}, [])
        for index, (number, processed) in enumerate(sequence, 1):
            epoch = self._epochs[number]
            if processed:
                records = read_table(ranges_of(epoch, self._partitions), logs.__getitem__, schema)
                self._rows[sequence[:index]] = processor.process(epoch, records).rows
            else:
                processor.skip(epoch)
        outcome = processor.outcome()
        self._graphs.take_back(graph)
        return outcome

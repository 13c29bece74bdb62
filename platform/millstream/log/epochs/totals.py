"""Totals: counts, positions, partitions and sinks over all lines of an epoch log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from millstream.digests import Digest
from millstream.errors import AlteredLog
from millstream.log.epochs.epoch import (
    Added,
    Build,
    Ended,
    Epoch,
    Idle,
    PartitionName,
    SinkAdded,
    SinkRemoved,
    Skipped,
)
from millstream.log.epochs.receipt import EpochReceipt
from millstream.log.epochs.running_models import RunningModels
from millstream.log.epochs.scores import Scores

__all__ = ["Base", "Totals"]


@dataclass(frozen=True)
class Base:
    """The beginning of an epoch log: the last epoch before it, and the checkpoint that has the state after this epoch.

    A log that begins with the first epoch of its run has neither.
    """

    epoch: int = -1
    checkpoint: int | None = None


@dataclass
class Totals:
    """Counts, positions, partitions and sinks over all lines of an epoch log, updated with each line.

    Records and rows count once: a replay of an epoch adds to `processed` only.
    """

    base: Base = field(default_factory=Base)
    next_epoch: int = 0
    at: int = 0
    """The time of the last cut."""
    partitions: list[PartitionName] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    idle: set[int] = field(default_factory=set)
    """The idle partitions, until a cut has offsets of them; the watermark leaves them out until it sees records."""
    sinks: dict[str, int] = field(default_factory=dict)
    """The current sinks, and for each the epoch that it begins with."""
    removed: set[str] = field(default_factory=set)
    returned: dict[str, int] = field(default_factory=dict)
    """The sinks that were removed and added again, and for each the epoch that it begins again with."""
    committed: int = -1
    checkpoint: int = -1
    """The number of the last checkpoint."""
    epochs: int = 0
    records: int = 0
    processed: int = 0
    rejects: int = 0
    scores: dict[str, Scores] = field(default_factory=dict)
    """The scores by step."""
    rows: dict[str, int] = field(default_factory=dict)
    """The number of rows by output."""
    last_rows: dict[str, int] = field(default_factory=dict)
    """By output, the last epoch that made rows."""
    delivered: dict[str, Digest] = field(default_factory=dict)
    """By sink, the digest of the rows that it got, each once, from the epoch that it begins with."""
    watermarks: dict[str, int | None] = field(default_factory=dict)
    """The last watermark of each step; None is the end of time."""
    held_by: int | None = None
    """The partition that holds the watermark, by its rank; None if the watermark waits for no partition."""
    held_since: int = 0
    """The time of the last cut when the watermark came to its present value and partition."""
    rounds: dict[str, int] = field(default_factory=dict)
    """The rounds of each cycle in the last epoch."""
    build: dict[str, str] = field(default_factory=dict)
    """The versions of the libraries that the last start has noted; none in a log that is no run's."""
    models: RunningModels = field(default_factory=RunningModels)

    @property
    def overall(self) -> Scores:
        """The scores of all steps together, without those of shadows."""
        return Scores.of_champions(self.scores)

    @property
    def accuracy(self) -> float | None:
        return self.overall.accuracy

    @property
    def baseline_accuracies(self) -> Mapping[str, float] | None:
        return self.overall.baseline_accuracies

    def add_epoch(self, epoch: Epoch) -> None:
        if epoch.number != self.next_epoch:
            message = f"the epoch log goes from epoch {self.next_epoch - 1} to {epoch.number}; its files were altered"
            raise AlteredLog(message)
        self.next_epoch += 1
        self.at = epoch.at
        self.idle.difference_update(epoch.ranks)
        self.models.add_epoch(epoch)
        for event in epoch.events:
            if isinstance(event, Added):
                self.positions[len(self.partitions)] = event.at
                self.partitions.append(event.partition)
            elif isinstance(event, Idle):
                self.idle.add(event.rank)
            elif isinstance(event, Ended):
                self.ended.add(event.rank)
                self.idle.discard(event.rank)
            elif isinstance(event, Skipped):
                self.positions[event.rank] = event.to
            elif isinstance(event, SinkRemoved):
                self.sinks.pop(event.sink, None)
                self.returned.pop(event.sink, None)
                self.removed.add(event.sink)
            elif isinstance(event, Build):
                self.build = dict(event.versions)
            elif isinstance(event, SinkAdded):
                if event.sink in self.removed:
                    self.removed.discard(event.sink)
                    self.returned[event.sink] = epoch.number
                self.sinks[event.sink] = epoch.number
        for rank, (_, stop) in epoch.cut.items():
            self.positions[rank] = stop

    def add_receipt(self, receipt: EpochReceipt) -> None:
        self.processed += receipt.records
        for output, (_, last) in receipt.rows.items():
            self.last_rows[output] = max(last, self.last_rows.get(output, -1))
        if receipt.attempt == 1:
            self.epochs += len(receipt.counts)
            self.records += receipt.records
            self.rejects += receipt.rejects
            for step, scores in receipt.scores.items():
                self.scores[step] = self.scores.get(step, Scores()) + scores
            for output, digest in receipt.outputs.items():
                self.rows[output] = self.rows.get(output, 0) + digest.count
            self.models.add_receipt(receipt)
            self._deliver(receipt)
            self.rounds = dict(receipt.rounds)
            if (self.watermarks, self.held_by) != (receipt.watermarks, receipt.held_by):
                self.watermarks, self.held_by = dict(receipt.watermarks), receipt.held_by
                self.held_since = self.at

    def _deliver(self, receipt: EpochReceipt) -> None:
        for sink, begin in self.sinks.items():
            made = receipt.outputs.get(sink.partition(" ")[0])
            if made is not None and receipt.epoch >= begin:
                self.delivered[sink] = self.delivered.get(sink, Digest()) + made

    def add_line(self, line: Mapping[str, Any]) -> None:
        if "checkpoint" in line:
            self.checkpoint = line["checkpoint"]
        elif "epoch" in line:
            self.add_epoch(Epoch.from_line(line))
        elif "receipt" in line:
            self.add_receipt(EpochReceipt.from_line(line))
        else:
            self.committed = line["commit"]

    def begun_at_base(self) -> Totals:
        """A copy for a new log that begins after the base: without counts, and without sinks."""
        return replace(
            self,
            checkpoint=-1 if self.base.checkpoint is None else self.base.checkpoint,
            sinks={},
            removed=set(),
            returned={},
            epochs=0,
            records=0,
            processed=0,
            rejects=0,
            scores={},
            rows={},
            last_rows={},
            delivered={},
            rounds={},
            build={},
            models=self.models.begun_at_base(),
        )

    def header(self) -> bytes:
        """The totals as the header of a segment."""
        sets = {name: sorted(value) for name, value in vars(self).items() if isinstance(value, set)}
        scores = {step: each.counts() for step, each in self.scores.items()}
        delivered = {sink: str(digest) for sink, digest in self.delivered.items()}
        models = self.models.line()
        return json.dumps({**asdict(self), **sets, "scores": scores, "delivered": delivered, "models": models}).encode()

    @staticmethod
    def from_header(header: bytes) -> Totals:
        if not header:
            return Totals()
        fields = json.loads(header)
        fields["partitions"] = [PartitionName(**partition) for partition in fields["partitions"]]
        fields["positions"] = {int(rank): offset for rank, offset in fields["positions"].items()}
        for name in ("ended", "idle", "removed"):
            fields[name] = set(fields[name])
        fields["scores"] = {step: Scores.from_counts(counts) for step, counts in fields["scores"].items()}
        fields["base"] = Base(**fields["base"])
        fields["models"] = RunningModels.from_line(fields["models"])
        fields["delivered"] = {sink: Digest.parse(text) for sink, text in fields["delivered"].items()}
        return Totals(**fields)

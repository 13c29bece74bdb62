"""Engines without the cost of exactly-once, for measurements only.

There are no receipts, digests, checkpoints, commits and guards, and nothing is synced, neither the epoch log nor the
sinks. The work that remains is processing and appending to the sinks, all epochs of a micro-batch in one append as
before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pyarrow as pa

from millstream.digests import Digest
from millstream.engines.job import Engine, Job
from millstream.guarantees.lifecycle import EpochLifecycle
from millstream.log.contracts import Progress
from millstream.log.epochs import Epoch

__all__ = ["WithoutGuarantee"]


def _no_digest(table: pa.Table) -> Digest:
    return Digest(table.num_rows)


def _no_digests(table: pa.Table, column: str) -> dict[int, Digest]:
    ranks, counts = np.unique(table[column].to_numpy(), return_counts=True)
    return {rank: Digest(count) for rank, count in zip(ranks.tolist(), counts.tolist(), strict=True)}


def _no_sync(file: int) -> None:
    """Leave the file as it is."""


class _Bare(EpochLifecycle):
    @property
    def delivered(self) -> Mapping[str, Digest]:
        return dict.fromkeys(self.sinks, Digest())

    def take(self, epochs: Sequence[Epoch]) -> None:
        results = [self._steps.process(epoch, 1) for epoch in epochs]
        for one in results:
            self.log.totals.add_receipt(one.receipt)  # for observers; nothing is written
        for name, sink in self.sinks.items():
            sink.append(pa.concat_tables([one.rows[name] for one in results]), Progress(self.log.id, epochs[-1].number))
        for one in results:
            self.observer.finished_epoch(one)

    def end(self) -> None:
        for sink in self.sinks.values():
            sink.close()


@dataclass(frozen=True)
class WithoutGuarantee:
    """An engine whose epochs have no guarantee."""

    engine: Engine

    def run(self, job: Job) -> None:
        whole = job.lifecycle
        job.lifecycle = _Bare(
            plan=whole.plan,
            log=whole.log,
            checkpoints=whole.checkpoints,
            sinks=whole.sinks,
            sink_keys=whole.sink_keys,
            observer=whole.observer,
        )
        with (
            mock.patch("millstream.steps.processor.digest_of", return_value=Digest()),
            mock.patch("millstream.steps.chain.digest_of", _no_digest),
            mock.patch("millstream.steps.chain.digests_by", _no_digests),
            mock.patch("os.fsync", _no_sync),
            mock.patch("os.fdatasync", _no_sync),
        ):
            self.engine.run(job)

"""Receipts: the results of processing an epoch, so that a replay can be compared with the first attempt."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.digests import Digest
from millstream.log.epochs.scores import Scores

__all__ = ["EpochReceipt"]


@dataclass(frozen=True)
class Merged:
    """The epochs of a merged receipt: the last one, by output the first and last ones with rows, and their records."""

    last: int
    rows: Mapping[str, tuple[int, int]]
    records: Mapping[int, int]

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> Merged:
        first, last = line["receipt"]
        counts = itertools.chain.from_iterable(itertools.repeat(records, epochs) for records, epochs in line["each"])
        rows = {name: (span[0], span[1]) for name, span in line["rows"].items()}
        return Merged(last, rows, dict(zip(range(first, last + 1), counts, strict=True)))


@dataclass(frozen=True)
class EpochReceipt:
    """The results of processing an epoch; the receipt is durable before the first sink gets the epoch.

    `inputs`: for each source the digest of its records. `streams`: for each step the digest of its records. `outputs`:
    for each output with rows the digest of the rows, as sinks get them. `scores`: for each step that predicted labelled
    records, its counts. `attempt` is 1, or more for a replay. `watermarks`: for each step the watermark of all that the
    step passes on after this epoch (None: the end of time); no step has one before the watermark's first value.
    `held_by` is the partition that holds the watermark. `rounds`: for each cycle of the graph, how many rounds it took;
    it is written only where there is a cycle. No value depends on the order of records, so several processes
    can make a receipt from their shares.

    The receipts of several epochs may be `merged`: then `epoch` is the first one, and the counts and digests are sums.
    """

    epoch: int
    attempt: int
    records: int
    rejects: int
    inputs: Mapping[str, Digest]
    streams: Mapping[str, Digest]
    outputs: Mapping[str, Digest]
    scores: Mapping[str, Scores] = field(default_factory=dict)
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    held_by: int | None = None
    rounds: Mapping[str, int] = field(default_factory=dict)
    merged: Merged | None = None

    @property
    def last(self) -> int:
        """The last epoch of the receipt."""
        return self.epoch if self.merged is None else self.merged.last

    @property
    def counts(self) -> Mapping[int, int]:
        """The number of records of each epoch."""
        return {self.epoch: self.records} if self.merged is None else self.merged.records

    @property
    def rows(self) -> Mapping[str, tuple[int, int]]:
        """By output, the first and the last epoch that made rows."""
        return dict.fromkeys(self.outputs, (self.epoch, self.epoch)) if self.merged is None else self.merged.rows

    @property
    def overall(self) -> Scores:
        """The scores of all steps together, without those of shadows."""
        return Scores.of_champions(self.scores)

    def line(self) -> dict[str, Any]:
        """The receipt as a line of the epoch log."""
        assert self.merged is None, "a merged receipt is not written again"
        return {
            "receipt": self.epoch,
            "attempt": self.attempt,
            "records": self.records,
            "rejects": self.rejects,
            "inputs": _pairs(self.inputs),
            "streams": _pairs(self.streams),
            "outputs": _pairs(self.outputs),
            "scores": {step: scores.counts() for step, scores in self.scores.items()},
            "watermarks": self.watermarks,
            "held_by": self.held_by,
            **({"rounds": self.rounds} if self.rounds else {}),
        }

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> EpochReceipt:
        merged = Merged.from_line(line) if "each" in line else None
        return EpochReceipt(
            epoch=line["receipt"] if merged is None else line["receipt"][0],
            attempt=line["attempt"],
            records=line["records"],
            rejects=line["rejects"],
            inputs=_digests(line["inputs"]),
            streams=_digests(line["streams"]),
            outputs=_digests(line["outputs"]),
            scores={step: Scores.from_counts(counts) for step, counts in line["scores"].items()},
            watermarks=line["watermarks"],
            held_by=line["held_by"],
            rounds=line.get("rounds", {}),
            merged=merged,
        )


def _pairs(digests: Mapping[str, Digest]) -> dict[str, tuple[int, str]]:
    return {name: (digest.count, digest.lanes) for name, digest in digests.items()}


def _digests(pairs: Mapping[str, tuple[int, str]]) -> dict[str, Digest]:
    return {name: Digest.of(count, lanes) for name, (count, lanes) in pairs.items()}

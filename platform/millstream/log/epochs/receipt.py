"""Receipts: the results of processing an epoch, so that a replay can be compared with the first attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.digests import Digest
from millstream.log.epochs.scores import Scores

__all__ = ["EpochReceipt"]


@dataclass(frozen=True)
class EpochReceipt:
    """The results of processing an epoch; the receipt is durable before the first sink gets the epoch.

    `inputs`: for each source the digest of its records. `streams`: for each step the digest of its records. `outputs`:
    for each output with rows the digest of the rows, as sinks get them. `scores`: for each step that predicted labelled
    records, its counts. `attempt` is 1, or more for a replay. `watermarks`: for each step the watermark of all that the
    step passes on after this epoch (None: the end of time); no step has one before the watermark's first value.
    `held_by` is the partition that holds the watermark. No value depends on the order of records, so several processes
    can make a receipt from their shares.
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

    @property
    def overall(self) -> Scores:
        """The scores of all steps together."""
        return Scores.sum(self.scores.values())

    def line(self) -> dict[str, Any]:
        """The receipt as a line of the epoch log."""
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
        }

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> EpochReceipt:
        return EpochReceipt(
            epoch=line["receipt"],
            attempt=line["attempt"],
            records=line["records"],
            rejects=line["rejects"],
            inputs=_digests(line["inputs"]),
            streams=_digests(line["streams"]),
            outputs=_digests(line["outputs"]),
            scores={step: Scores.from_counts(counts) for step, counts in line["scores"].items()},
            watermarks=line["watermarks"],
            held_by=line["held_by"],
        )


def _pairs(digests: Mapping[str, Digest]) -> dict[str, tuple[int, str]]:
    return {name: (digest.count, digest.lanes) for name, digest in digests.items()}


def _digests(pairs: Mapping[str, tuple[int, str]]) -> dict[str, Digest]:
    return {name: Digest.of(count, lanes) for name, (count, lanes) in pairs.items()}

"""Receipts: the results of processing an epoch, so that a replay can be compared with the first attempt."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.log.epochs.baselines import Baselines
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

    `inputs`: for each rank the number of records and their digest. `outputs`: for each output the number of rows and
    their digest, and `steps`: for each step a digest, both in the order of processing. `attempt` is 1, or more for a
    replay. The receipts of several epochs may be `merged`: then `epoch` is the first one, and the counts are sums.
    """

    epoch: int
    attempt: int
    records: int
    rejects: int
    correct: int
    labelled: int
    inputs: Mapping[int, tuple[int, str]]
    steps: Mapping[str, str]
    outputs: Mapping[str, tuple[int, str]]
    baselines: Baselines = field(default_factory=Baselines)
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
    def scores(self) -> Scores:
        return Scores(self.records, self.correct, self.labelled, self.baselines)

    def line(self) -> dict[str, Any]:
        """The receipt as a line of the epoch log."""
        assert self.merged is None, "a merged receipt is not written again"
        fields = {name: value for name, value in vars(self).items() if name not in ("epoch", "merged")}
        inputs = {str(rank): v for rank, v in self.inputs.items()}
        return {"receipt": self.epoch, **fields, "inputs": inputs, "baselines": self.baselines.counts()}

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> EpochReceipt:
        merged = Merged.from_line(line) if "each" in line else None
        fields = {name: value for name, value in line.items() if name not in ("each", "rows", "receipt")}
        return EpochReceipt(
            epoch=line["receipt"] if merged is None else line["receipt"][0],
            merged=merged,
            inputs={int(rank): (v[0], v[1]) for rank, v in fields.pop("inputs").items()},
            outputs={name: (v[0], v[1]) for name, v in fields.pop("outputs").items()},
            baselines=Baselines(**fields.pop("baselines")),
            **fields,
        )

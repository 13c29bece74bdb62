"""Receipts: the results of processing an epoch, so that a replay can be compared with the first attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.log.epochs.baselines import Baselines
from millstream.log.epochs.scores import Scores

__all__ = ["EpochReceipt"]


@dataclass(frozen=True)
class EpochReceipt:
    """The results of processing an epoch; the receipt is durable before the first sink gets the epoch.

    `inputs`: for each rank the number of records and their digest. `outputs`: for each output the number of rows and
    their digest, and `steps`: for each step a digest, both in the order of processing. `attempt` is 1, or more for a
    replay. `watermarks`: for each step the watermark of all that the step passes on after this epoch (None: the end of
    time); no step has one before the watermark's first value. `held_by` is the partition that holds the watermark.
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
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    held_by: int | None = None

    @property
    def scores(self) -> Scores:
        return Scores(self.records, self.correct, self.labelled, self.baselines)

    def line(self) -> dict[str, Any]:
        """The receipt as a line of the epoch log."""
        fields = {name: value for name, value in vars(self).items() if name != "epoch"}
        inputs = {str(rank): v for rank, v in self.inputs.items()}
        return {"receipt": self.epoch, **fields, "inputs": inputs, "baselines": self.baselines.counts()}

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> EpochReceipt:
        fields = dict(line)
        return EpochReceipt(
            epoch=fields.pop("receipt"),
            inputs={int(rank): (v[0], v[1]) for rank, v in fields.pop("inputs").items()},
            outputs={name: (v[0], v[1]) for name, v in fields.pop("outputs").items()},
            baselines=Baselines(**fields.pop("baselines")),
            **fields,
        )

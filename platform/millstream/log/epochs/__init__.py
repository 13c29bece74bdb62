"""Epochs: the planner, which cuts a stream into epochs, and the epoch log, which stores their order durably."""

from millstream.log.epochs.baselines import Baselines
from millstream.log.epochs.epoch import (
    Added,
    Build,
    Decided,
    Ended,
    Epoch,
    Event,
    Idle,
    NewModel,
    PartitionName,
    SinkAdded,
    SinkRemoved,
    Skipped,
    Swap,
    in_order,
)
from millstream.log.epochs.log import EpochLog
from millstream.log.epochs.partitions import PartitionTable
from millstream.log.epochs.planner import MOST_EPOCHS, MOST_RECORDS, Planner, has_room
from millstream.log.epochs.reader import EpochReader
from millstream.log.epochs.receipt import EpochReceipt
from millstream.log.epochs.running_models import RunningModels, RunningVersion, Trial
from millstream.log.epochs.scores import Scores
from millstream.log.epochs.totals import Base, Totals

__all__ = [
    "MOST_EPOCHS",
    "MOST_RECORDS",
    "Added",
    "Base",
    "Baselines",
    "Build",
    "Decided",
    "Ended",
    "Epoch",
    "EpochLog",
    "EpochReader",
    "EpochReceipt",
    "Event",
    "Idle",
    "NewModel",
    "PartitionName",
    "PartitionTable",
    "Planner",
    "RunningModels",
    "RunningVersion",
    "Scores",
    "SinkAdded",
    "SinkRemoved",
    "Skipped",
    "Swap",
    "Totals",
    "Trial",
    "has_room",
    "in_order",
]

"""Epochs: where a stream is cut, and the epoch log, the one durable order in which a run meets its records."""

from millstream.log.epochs.baselines import Baselines
from millstream.log.epochs.log import (
    Added,
    Ended,
    Epoch,
    EpochLog,
    EpochReader,
    Event,
    Note,
    PartitionName,
    SinkAdded,
    SinkRemoved,
    Skipped,
    Totals,
)
from millstream.log.epochs.planner import MOST_EPOCHS, MOST_RECORDS, Planner, room

__all__ = [
    "MOST_EPOCHS",
    "MOST_RECORDS",
    "Added",
    "Baselines",
    "Ended",
    "Epoch",
    "EpochLog",
    "EpochReader",
    "Event",
    "Note",
    "PartitionName",
    "Planner",
    "SinkAdded",
    "SinkRemoved",
    "Skipped",
    "Totals",
    "room",
]

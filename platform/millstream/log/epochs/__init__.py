"""Epochs: where a stream is cut, and the epoch log, the one durable order in which a run meets its records."""

from millstream.log.epochs.baselines import Baselines
from millstream.log.epochs.epoch import Added, Ended, Epoch, Event, PartitionName, SinkAdded, SinkRemoved, Skipped
from millstream.log.epochs.log import EpochLog
from millstream.log.epochs.planner import MOST_EPOCHS, MOST_RECORDS, Planner, room
from millstream.log.epochs.reader import EpochReader
from millstream.log.epochs.receipt import EpochReceipt
from millstream.log.epochs.scores import Scores
from millstream.log.epochs.totals import Totals

__all__ = [
    "MOST_EPOCHS",
    "MOST_RECORDS",
    "Added",
    "Baselines",
    "Ended",
    "Epoch",
    "EpochLog",
    "EpochReader",
    "EpochReceipt",
    "Event",
    "PartitionName",
    "Planner",
    "Scores",
    "SinkAdded",
    "SinkRemoved",
    "Skipped",
    "Totals",
    "room",
]

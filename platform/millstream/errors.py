"""Every exception that Millstream raises on purpose.

MillstreamError                 exit code 1
├── ConfigError                 2: the config is wrong, as `validate` can tell without running
├── Contradiction               3: the run directory, a log or a sink contradicts the config
│   ├── ForeignSink             a sink holds rows of another epoch log
│   ├── AlteredLog              a log or a run's file is not what it was
│   ├── Truncated               a wanted range has been removed from a log
│   └── UnknownFormat           a run directory, a journal or a checkpoint has the format of another version
├── DifferentReplay             a replay came out differently from the first time
├── StepFailed                  a step raised
└── InUse                       another process holds the run directory, or appends to the journal
"""

from __future__ import annotations

__all__ = [
    "AlteredLog",
    "ConfigError",
    "Contradiction",
    "DifferentReplay",
    "ForeignSink",
    "InUse",
    "MillstreamError",
    "StepFailed",
    "Truncated",
    "UnknownFormat",
]


class MillstreamError(Exception):
    """Something a user can read and act on; never shown with a traceback."""

    exit_code = 1


class ConfigError(MillstreamError):
    """The config is wrong, or a guarantee it asks for is impossible."""

    exit_code = 2


class Contradiction(MillstreamError):
    """What is on disk (or in a log or sink) contradicts the config."""

    exit_code = 3


class ForeignSink(Contradiction):
    """A sink holds rows of another epoch log."""


class AlteredLog(Contradiction):
    """A log, or a file of the run directory, is not what it was."""


class Truncated(Contradiction):
    """A range that is wanted has been removed from a log."""


class UnknownFormat(Contradiction):
    """A run directory, a journal or a checkpoint has the format of another version of Millstream."""


class DifferentReplay(MillstreamError):
    """The same epoch came out differently on a replay."""


class StepFailed(MillstreamError):
    """A step raised; `rank` and `offset` tell the record, where one is to blame."""

    def __init__(self, message: str, rank: int | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.rank, self.offset = rank, offset


class InUse(MillstreamError):
    """Another process holds the run directory, or appends to the journal."""

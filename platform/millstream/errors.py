"""Every exception that Millstream raises on purpose, and the exit code of the command that it ends.

MillstreamError                 1: anything else that a user can act on
├── ConfigError                 2: the config is wrong, as `validate` reports without a run; or an argument
├── Contradiction               3: the run directory, a log or a sink contradicts the config
│   ├── AlteredLog              3: a log or a file of the run directory was altered
│   │   └── AlteredCheckpoint   3: a file of a checkpoint is gone or was altered
│   ├── ForeignSink             3: a sink holds rows of another epoch log
│   ├── Truncated               3: a range that the run needs was removed from a log
│   └── UnknownFormat           3: a run directory, a journal or a checkpoint has the format of another version
├── DifferentReplay             1: a replayed epoch gave different results than the first attempt
├── StepFailed                  1: a step raised an exception
├── WorkerLost                  1: a worker process died or hangs, and restarts did not help
└── Unavailable                 4: a server is unavailable, or a disk is full: the same command may succeed later
    └── InUse                   4: another process uses the run directory, or appends to the journal

Exit codes without an exception of this module:

0       the command succeeded, or SIGINT or SIGTERM stopped a run after its epoch
1       any other exception: a defect, or an error of the operating system
2       click refused the command line
4       an OSError of `DISK_FULL`
130     SIGINT ended the command at once: outside a run the first one, in a run the third
137     SIGKILL ended the process: `--crash`, `kill -9`, or the kernel when memory ran out (as a shell reports it)
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "DISK_FULL",
    "AlteredCheckpoint",
    "AlteredLog",
    "ConfigError",
    "ConfigProblem",
    "Contradiction",
    "DifferentReplay",
    "ForeignSink",
    "InUse",
    "MillstreamError",
    "StepFailed",
    "Truncated",
    "Unavailable",
    "UnknownFormat",
    "WorkerLost",
]

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The error numbers for a full disk: an `OSError` with one of these ends a command with the code of `Unavailable`."""


class MillstreamError(Exception):
    """An error that a user can act on; the command line prints its message without a traceback."""

    exit_code = 1


@dataclass(frozen=True)
class ConfigProblem:
    """One problem of a config: the file with the line, if there is one, the key path, and a message with the remedy."""

    where: str
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.where} {self.key}".strip()
        return f"{place}: {self.message}" if place else self.message


class ConfigError(MillstreamError):
    """The config or an argument is wrong, or the guarantee is impossible; `problems` are all problems found."""

    exit_code = 2

    def __init__(self, message: str, problems: Sequence[ConfigProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (ConfigProblem("", "", message),)


class Contradiction(MillstreamError):
    """The run directory, a log or a sink contradicts the config."""

    exit_code = 3


class AlteredLog(Contradiction):
    """A log or a file of the run directory was altered."""


class AlteredCheckpoint(AlteredLog):
    """A file of a checkpoint is gone or was altered. The message is the damage, a semicolon and the advice."""

    @property
    def damage(self) -> str:
        """The part of the message that names the file and its damage."""
        return str(self).rpartition("; ")[0]


class ForeignSink(Contradiction):
    """A sink holds rows of another epoch log."""


class Truncated(Contradiction):
    """A range that the run needs was removed from a log."""


class UnknownFormat(Contradiction):
    """A run directory, a journal or a checkpoint has the format of another version of Millstream."""


class DifferentReplay(MillstreamError):
    """A replayed epoch gave different results than the first attempt."""


class StepFailed(MillstreamError):
    """A step raised an exception; `rank`, `offset` and `path` name the record, if one caused it."""

    def __init__(self, message: str, rank: int | None = None, offset: int | None = None, path: bytes = b"") -> None:
        super().__init__(message)
        self.rank, self.offset, self.path = rank, offset, path


class WorkerLost(MillstreamError):
    """A worker process died, or hangs; a run raises it after several restarts without progress."""

    counts_when_idle = False
    """True if a loss soon after a start counts as a failure without progress even when no epoch was in flight."""


class Unavailable(MillstreamError):
    """A server or a resource is not available now: the same command may succeed later, with nothing changed."""

    exit_code = 4


class InUse(Unavailable):
    """Another process uses the run directory, or appends to the journal."""

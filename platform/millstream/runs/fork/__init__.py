"""Forks: new runs that begin with the state and the cuts of another run, perhaps with another config."""

from millstream.runs.fork.fork import Fork, fork_run
from millstream.runs.fork.kept_state import StepChange
from millstream.runs.fork.sources import SourceChange

__all__ = ["Fork", "SourceChange", "StepChange", "fork_run"]

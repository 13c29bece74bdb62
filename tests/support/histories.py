"""Histories of small pipelines: computed in this process, or on Spark, and compared with a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from millstream.engines.spark.background_session import BackgroundSession
from millstream.history.setup import open_once
from millstream.history.spark_tasks import plan_of
from millstream.state.checkpoints import read_newest
from millstream.state.digests import state_digest

__all__ = ["HereSession", "state_in"]


class HereSession(BackgroundSession):
    """Runs the parts of the work in this process, one after the other, the last one first."""

    def start(self) -> None:
        """Close what an earlier history has opened: a new session has new processes."""
        open_once.cache_clear()
        plan_of.cache_clear()

    def prepare(self, function: Callable[[Iterable[list[str]]], None], parts: int) -> None:
        """Prepare nothing: this process has all modules."""

    def run(
        self,
        function: Callable[[Iterable[list[str]]], None],
        parts: Sequence[str],
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        for part in reversed(parts):
            function([[part]])
            watch()


def state_in(run: Path, step: str) -> str:
    """The digest of a step's state in the newest checkpoint of a run."""

    def digest(_: object, states: Any) -> str:
        return str(state_digest(states[step]))

    found = read_newest(run, digest)
    assert found is not None
    return found

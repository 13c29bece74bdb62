"""What an engine is given: everything about one start of a run, built and ready."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from millstream.config.models import Config
from millstream.engines.cutter import Backpressure, Cutter
from millstream.guarantees.passage import Passage
from millstream.log.contracts import Log, Place
from millstream.log.epochs import Epoch, EpochLog
from millstream.steps.graph import Graph
from millstream.steps.processor import EpochProcessor

__all__ = ["Engine", "Job"]


@dataclass
class Job:
    """One start of a run. `stop` asks for an end after the epoch in hand.

    `processing` has the state that the summary tells of when the run has ended.
    """

    config: Config
    graph: Graph
    sources: Mapping[str, Any]
    places: Mapping[str, Place]
    logs: Mapping[str, Log]
    epoch_log: EpochLog
    epoch_folder: Path
    cutter: Cutter
    throttle: Backpressure
    processing: EpochProcessor
    passage: Passage
    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    restarted: Callable[[str], None] = lambda reason: None
    """Told, in one line, why workers were started anew."""

    def waiting(self, first: int) -> list[Epoch]:
        """The epochs from `first` on that are cut and to be taken; `Truncated` if their records are gone."""
        self.throttle.clear()
        if first >= self.epoch_log.totals.next_epoch:
            return []
        epochs = list(self.epoch_log.reader().epochs(first))
        partitions = self.epoch_log.totals.partitions
        for rank, start in {rank: cut[0] for epoch in reversed(epochs) for rank, cut in epoch.cut.items()}.items():
            self.logs[partitions[rank].source].resume(partitions[rank].name, start)
        for epoch in epochs:
            self.throttle.cut(epoch)
        return epochs


class Engine(Protocol):
    """Takes a job's epochs in order through its passage, until the cutter is done or `stop` is set."""

    def run(self, job: Job) -> None: ...

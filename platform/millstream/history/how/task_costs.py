"""The processor time of the tasks that learn, and that of the longest ones."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from millstream.history.folder import HistoryFolder
from millstream.log.journal.durability import make_folder, write_whole

__all__ = ["longest_seconds", "measured"]


@contextmanager
def measured(folder: HistoryFolder, stage: int, task: int) -> Iterator[None]:
    """Store the processor time of a task of a stage."""
    began = time.process_time()
    yield
    make_folder(folder.costs)
    facts = {"stage": stage, "process": os.getpid(), "seconds": time.process_time() - began}
    write_whole(folder.costs / f"{stage:06d}-{task:06d}.json", json.dumps(facts))


def longest_seconds(folder: HistoryFolder, continues: bool) -> dict[str, float]:
    """The processor time of the busiest process of each stage; stages follow each other, so these add up.

    A training that `continues` an earlier start has none: the tasks that were killed have stored no time.
    """
    if continues:
        return {}
    stages: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for file in folder.costs.glob("*.json"):
        facts = json.loads(file.read_bytes())
        stages[facts["stage"]][facts["process"]] += facts["seconds"]
    return {"longest_cpu_seconds": sum(max(processes.values()) for processes in stages.values())}

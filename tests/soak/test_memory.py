"""A run that goes on for long holds no more memory than a short one."""

from __future__ import annotations

import resource
import statistics
import time
from functools import partial
from pathlib import Path

import pytest
import yaml

from benchmarks.kit.millstream_process import MillstreamProcess
from millstream.errors import ConfigError
from millstream.log.journal import JournalReader

EARLY, LATE = 2_000, 10_000
WITHIN = 1_800


@pytest.mark.soak
@pytest.mark.spark
def test_the_driver_does_not_grow_over_10_000_epochs_on_spark(tmp_path: Path) -> None:
    config = {
        "name": "soak",
        "source": {"type": "generator", "records": None, "rate": 50},
        "pipeline": {"use": "text_topics", "model": {"type": "complement_nb", "block": 256}},
        "engine": {"type": "spark", "epoch": {"max_records": 1, "max_wait": "10ms"}},
    }
    (tmp_path / "soak.yaml").write_text(yaml.safe_dump(config))
    with MillstreamProcess(tmp_path / "soak.yaml", tmp_path / "run", "--follow") as run:
        rows = tmp_path / "run" / "outputs" / "predictions" / "_open"
        sink = run.until(partial(opened, rows), every=0.1, within=120)
        held = {}
        for epochs in (EARLY, LATE):
            run.until(partial(beyond, sink, epochs), every=0.1, within=WITHIN)
            held[epochs] = resident(run.pid)
        sink.close()
    assert held[LATE] <= 1.1 * held[EARLY], {epochs: f"{size / 2**20:.0f} MiB" for epochs, size in held.items()}


def opened(folder: Path) -> JournalReader | None:
    try:
        return JournalReader(folder)
    except ConfigError:
        return None


def beyond(sink: JournalReader, epochs: int) -> int | None:
    """The last epoch that the sink has, once it is beyond so many."""
    sink.end()
    return sink.last_mark if sink.last_mark >= epochs else None


def resident(pid: int) -> float:
    """The bytes of memory that a process holds, over a few seconds."""
    looks = []
    for _ in range(20):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        looks.append(pages * resource.getpagesize())
        time.sleep(0.2)
    return statistics.median(looks)

"""A long run holds no more memory than a short one."""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

import pytest
import yaml
from support.commands import Commands, processed
from support.conditions import wait_until

EARLY, LATE = 2_000, 10_000


@pytest.mark.soak
@pytest.mark.spark
def test_the_driver_does_not_grow_over_10_000_epochs_on_spark(tmp_path: Path) -> None:
    config = {
        "name": "soak",
        "source": {"type": "generator", "records": None, "rate": 50},
        "pipeline": {"use": "text_topics", "model": {"type": "complement_nb", "batch_size": 256}},
        "engine": {"type": "spark", "epoch": {"max_records": 1, "max_wait": "10ms"}},
    }
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(config))
    commands = Commands(tmp_path)
    process = commands.start("run", "--follow")
    held = {}
    for epochs in (EARLY, LATE):
        while (so_far := processed(tmp_path / "run")) < epochs:
            wait_until(lambda so_far=so_far: processed(tmp_path / "run") > so_far, "an epoch", process)  # type: ignore[misc]
            time.sleep(5)
        held[epochs] = resident(process.pid)
    commands.stop(process)
    assert held[LATE] <= 1.1 * held[EARLY], {epochs: f"{size / 2**20:.0f} MiB" for epochs, size in held.items()}


def resident(pid: int) -> float:
    """The bytes of memory that a process holds, over a few seconds."""
    looks = []
    for _ in range(20):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        looks.append(pages * resource.getpagesize())
        time.sleep(0.2)
    return statistics.median(looks)

"""A hundred kills of random processes of a local run with workers, over 200,000 records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.kills import Victim, kill_processes


@pytest.mark.soak
def test_a_hundred_kills_of_random_processes_leave_no_trace(tmp_path: Path) -> None:
    rng = random.Random(11)
    victims: list[Victim] = ["coordinator" if rng.random() < 0.3 else "worker" for _ in range(100)]
    kill_processes(tmp_path, victims, epochs=80, seed=11)

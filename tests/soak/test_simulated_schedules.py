"""Ten thousand schedules of each of two pipelines, with `keep`, idle partitions, and sinks that rarely get a row."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from support.simulated_pipeline import PipelineFactory, SimulatedPipeline, demo_pipelines, keyed_pipelines

from millstream.engines.simulated.parallel_seeds import outcomes
from millstream.engines.simulated.simulation import Simulation

pytestmark = pytest.mark.soak
SCHEDULES = 10_000
SHOWN = (r"the base is epoch", r"idle=\d", r"rejects gets [1-9]", r"rejects gets 0")
"""The patterns of lines of traces that show what a sample of the schedules has."""


def assert_schedules(pipeline: SimulatedPipeline, schedules: int) -> None:
    found = outcomes(pipeline.config, pipeline.records, range(schedules), jobs=2)
    assert [outcome for outcome in found if outcome.wrong] == []


def seen_in_traces(pipeline: SimulatedPipeline, folder: Path) -> Counter[str]:
    simulation, seen = Simulation(pipeline.config, pipeline.records, folder), Counter[str]()
    for seed in range(40):
        lines: list[str] = []
        simulation.run(seed, lines.append)
        seen.update(pattern for pattern in SHOWN if re.search(pattern, "\n".join(lines)))
    return seen


def test_ten_thousand_schedules_of_the_demo_come_out_as_exactly_once_promises(tmp_path: Path) -> None:
    assert_schedules(demo_pipelines(tmp_path)("exactly_once"), SCHEDULES)


@pytest.fixture
def keyed(tmp_path: Path) -> PipelineFactory:
    return keyed_pipelines(tmp_path)


@pytest.mark.parametrize(
    ("delivery", "schedules"), [("exactly_once", SCHEDULES), ("at_least_once", 3000), ("at_most_once", 3000)]
)
def test_ten_thousand_schedules_of_keyed_steps_keep_the_promise(
    keyed: PipelineFactory, delivery: str, schedules: int
) -> None:
    assert_schedules(keyed(delivery), schedules)


def test_the_schedules_have_bases_that_move_idle_partitions_and_quiet_sinks(
    keyed: PipelineFactory, tmp_path: Path
) -> None:
    seen = seen_in_traces(keyed("exactly_once"), tmp_path / "disks")
    assert all(seen[pattern] >= 2 for pattern in SHOWN), seen

"""In every schedule, with any order and any faults, a run keeps the promise of its delivery."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.simulated_pipeline import CYCLE, GRAPH, KINDS, SHADOWS, SHARED, TO_ALL, PipelineFactory

from millstream.engines.simulated.parallel_seeds import outcomes
from millstream.engines.simulated.simulation import Simulation
from millstream.engines.simulated.world.faults import Target

GUARANTEES = [("exactly_once", 1, 1), ("at_least_once", 2, 3), ("at_most_once", 2, 1)]
GRAPHS: dict[str, tuple[list[dict[str, Any]], int, int]] = {
    "graph": (GRAPH, 2, 5),
    "cycle": (CYCLE, 2, 5),
    "keyed steps behind windows by key": (SHARED, 2, 10),
    "a stream to all": (TO_ALL, 2, 5),
    "windows of all kinds": (KINDS, 2, 4),
    "shadows": (SHADOWS, 8, 40),
}
"""The steps of each graph, and the numbers of its schedules: in `make test`, and in all."""


def seeds(few: int, end: int) -> list[Any]:
    """The seeds of a test; `make test` runs it only with the first `few`."""
    return [
        pytest.param(range(few), id=f"first {few}"),
        pytest.param(range(few, end), id="others", marks=pytest.mark.matrix),
    ]


@pytest.mark.parametrize(("schedules", "least"), [(30, 1), pytest.param(100, 6, marks=pytest.mark.matrix)])
@pytest.mark.parametrize(("delivery", "checkpoint_every", "commit_every"), GUARANTEES)
def test_schedules_of_the_demo_keep_the_promise(
    demo: PipelineFactory, delivery: str, checkpoint_every: int, commit_every: int, schedules: int, least: int
) -> None:
    made = demo(delivery, checkpoint_every, commit_every)
    injected: Counter[Target] = Counter()
    for outcome in outcomes(made.config, made.records, range(schedules), jobs=2):
        assert not outcome.wrong, outcome
        injected.update(outcome.injected)
    assert all(injected[target] >= least for target in Target)


@pytest.mark.parametrize("seeds", seeds(8, 25))
@pytest.mark.parametrize(("delivery", "checkpoint_every", "commit_every"), [*GUARANTEES, ("exactly_once", 3, 2)])
def test_schedules_of_keyed_steps_keep_the_promise(
    keyed: PipelineFactory, tmp_path: Path, delivery: str, checkpoint_every: int, commit_every: int, seeds: range
) -> None:
    made = keyed(delivery, checkpoint_every, commit_every)
    simulation = Simulation(made.config, made.records, tmp_path / "disks")
    for seed in seeds:
        assert not simulation.run(seed).wrong, seed


@pytest.mark.parametrize(
    ("steps", "seeds"),
    [
        pytest.param(steps, *case.values, id=f"{name}, {case.id}", marks=case.marks)
        for name, (steps, few, end) in GRAPHS.items()
        for case in seeds(few, end)
    ],
)
@pytest.mark.parametrize(("delivery", "checkpoint_every", "commit_every"), GUARANTEES)
def test_schedules_of_graphs_keep_the_promise(
    graph: PipelineFactory,
    tmp_path: Path,
    delivery: str,
    checkpoint_every: int,
    commit_every: int,
    steps: list[dict[str, Any]],
    seeds: range,
) -> None:
    made = graph(delivery, checkpoint_every, commit_every, steps)
    simulation = Simulation(made.config, made.records, tmp_path / "disks")
    for seed in seeds:
        assert not simulation.run(seed).wrong, seed


def test_a_reader_that_is_killed_between_two_rounds_of_a_cycle_leaves_no_trace(
    graph: PipelineFactory, tmp_path: Path
) -> None:
    made, found = graph("exactly_once", 1, 1, CYCLE), list[str]()
    simulation = Simulation(made.config, made.records, tmp_path / "disks")
    for seed in range(16, 60):
        lines: list[str] = []
        assert not simulation.run(seed, lines.append).wrong, seed
        found += _killed_between_rounds(lines)
        if found:
            break
    assert found


def _killed_between_rounds(lines: list[str]) -> list[str]:
    """The kills of readers while a cycle is not over: after the beginning of a later round of an epoch."""
    found: list[str] = []
    running: set[str] = set()
    for line in lines:
        if begun := re.search(r": Round \d+ of notes, epoch (\d+)( does not begin)?$", line):
            (running.discard if begun[2] else running.add)(begun[1])
        elif "***" in line:
            found += [line] if running and "*** reader" in line else []
            running.clear()
    return found


@pytest.mark.parametrize("seeds", seeds(4, 10))
@pytest.mark.parametrize(("delivery", "checkpoint_every", "commit_every"), GUARANTEES)
def test_schedules_of_sessions_by_key_with_early_rows_keep_the_promise(
    keyed: PipelineFactory, tmp_path: Path, delivery: str, checkpoint_every: int, commit_every: int, seeds: range
) -> None:
    window = {"type": "session", "gap": "4m", "lateness": "1m"}
    last = {"type": "popularity", "by": "word", "window": window, "emit": {"early": "3m"}}
    made = keyed(delivery, checkpoint_every, commit_every, {"type": "naive_bayes"}, last)
    simulation = Simulation(made.config, made.records, tmp_path / "disks")
    for seed in seeds:
        assert not simulation.run(seed).wrong, seed


def test_rows_that_have_expired_are_older_than_a_checkpoint_on_the_disk(keyed: PipelineFactory, tmp_path: Path) -> None:
    made, lines = keyed("exactly_once"), list[str]()
    outcome = Simulation(made.config, made.records, tmp_path / "disks").run(5499, lines.append)
    unsynced = next(at for at, line in enumerate(lines) if "logs checkpoint 0" in line)
    assert "*** coordinator" in lines[unsynced + 1]  # the rows of `topics` expire here, and then the power fails
    assert any("*** power" in line for line in lines[unsynced + 2 :])
    assert not outcome.wrong


@pytest.mark.parametrize("seeds", seeds(8, 25))
@pytest.mark.parametrize(("delivery", "checkpoint_every", "commit_every"), GUARANTEES)
def test_schedules_of_a_model_that_sends_only_its_dirty_rows_keep_the_promise(
    keyed: PipelineFactory, tmp_path: Path, delivery: str, checkpoint_every: int, commit_every: int, seeds: range
) -> None:
    made = keyed(delivery, checkpoint_every, commit_every, {"type": "naive_bayes"})
    simulation = Simulation(made.config, made.records, tmp_path / "disks")
    for seed in seeds:
        assert not simulation.run(seed).wrong, seed


def test_a_seed_is_always_the_same_schedule(keyed: PipelineFactory, tmp_path: Path) -> None:
    made = keyed("exactly_once")
    traces: list[list[str]] = []
    for folder in ("one", "other"):
        simulation = Simulation(made.config, made.records, tmp_path / folder)
        for first in range(3 if traces else 0):  # earlier schedules make no difference
            simulation.run(first)
        traces.append([])
        simulation.run(5, traces[-1].append)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 50


def test_other_seeds_are_other_schedules(keyed: PipelineFactory, tmp_path: Path) -> None:
    made = keyed("exactly_once")
    simulation = Simulation(made.config, made.records, tmp_path / "disks")
    traces: list[tuple[str, ...]] = []
    for seed in (1, 2, 3):
        lines: list[str] = []
        simulation.run(seed, lines.append)
        traces.append(tuple(line.partition("step")[2] for line in lines))
    assert len(set(traces)) == 3

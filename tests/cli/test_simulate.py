"""`millstream simulate`: any number of schedules, and the seed of the one that differs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from cli.conftest import Millstream

from millstream.engines.simulated.world.disk import SimulatedEpochLog


def test_it_says_how_many_schedules_came_out_as_promised(millstream: Millstream, demo: Path) -> None:
    ran = millstream("simulate", "demo.yaml", "--schedules", 12, "--records", 60)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("demo: 12 schedules in ")
    assert "each came out as exactly_once promises" in ran.out
    assert sorted(path.name for path in demo.iterdir()) == ["demo.yaml"]


def test_json_is_one_object(millstream: Millstream, demo: Path) -> None:
    guarantee = ("--set", "guarantee.delivery=at_least_once", "--set", "guarantee.checkpoint_every=2")
    ran = millstream("simulate", "demo.yaml", *guarantee, "--schedules", 12, "--records", 60, "--json")
    told = json.loads(ran.out)
    assert (told["delivery"], told["schedules"], told["wrong"]) == ("at_least_once", 12, None)
    assert told["starts"] >= 12 + told["faults"]["coordinator"] + told["faults"]["power"]
    assert told["epochs"] > 12


def test_several_jobs_come_to_the_same(millstream: Millstream, demo: Path) -> None:
    given = ("simulate", "demo.yaml", "--schedules", 12, "--records", 60, "--json")
    alone, shared = (json.loads(millstream(*given, "--jobs", jobs).out) for jobs in (1, 2))
    for told in (alone, shared):
        del told["seconds"], told["schedules_per_minute"]
    assert alone == shared


def test_a_schedule_that_differs_is_shown_by_its_seed(
    millstream: Millstream, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedEpochLog, "sync", lambda log: None)
    ran = millstream("simulate", "demo.yaml", "--records", 60)
    assert ran.code == 1
    command = shlex.split(ran.out.splitlines()[-1])
    assert command[:5] == ["millstream", "simulate", "demo.yaml", "--records", "60"]
    shown = millstream(*command[1:])
    assert shown.code == 1
    assert shown.out.splitlines()[-1].endswith(ran.out.splitlines()[-2].strip())
    assert "*** power: all memory is gone" in shown.out


def test_a_trace_has_every_step_of_one_schedule(millstream: Millstream, demo: Path) -> None:
    ran = millstream("simulate", "demo.yaml", "--records", 60, "--seed", 4, "--trace")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert all(line.startswith("seed 4  ") for line in lines)
    assert "=== a start: " in lines[0]
    assert lines[-1] == "seed 4  as exactly_once promises"
    assert any("logs the cut of epoch 0" in line for line in lines)
    assert millstream("simulate", "demo.yaml", "--records", 60, "--seed", 4, "--trace").out == ran.out


def test_what_cannot_be_validated_is_not_simulated(millstream: Millstream, demo: Path) -> None:
    ran = millstream("simulate", "demo.yaml", "--set", "pipeline.model.type=nope")
    assert ran.code == 2 and "no such model is installed" in ran.err


@pytest.mark.parametrize(
    ("delivery", "why"), [("exactly_once", "exactly_once is impossible"), ("at_least_once", "no simulation can tell")]
)
def test_a_step_that_is_not_deterministic_cannot_be_simulated(
    millstream: Millstream, demo: Path, monkeypatch: pytest.MonkeyPatch, delivery: str, why: str
) -> None:
    monkeypatch.syspath_prepend(str(demo))
    (demo / "drawing.py").write_text("def draw(record):\n    return {}\n")
    steps = '[{type: map, function: "drawing:draw", deterministic: false}]'
    text = (demo / "demo.yaml").read_text()
    start, stop = text.index("pipeline:"), text.index("engine:")
    guarantee = f"guarantee: {{delivery: {delivery}}}\n"
    (demo / "demo.yaml").write_text(f"{text[:start]}pipeline:\n  steps: {steps}\n{guarantee}{text[stop:]}")
    ran = millstream("simulate", "demo.yaml")
    assert ran.code == 2 and why in ran.err


def test_sources_without_records_leave_nothing_to_simulate(millstream: Millstream, folder: Path) -> None:
    (folder / "news.jsonl").write_text("")
    ran = millstream("simulate", "news.yaml")
    assert ran.code == 1 and "its sources have no records yet" in ran.err

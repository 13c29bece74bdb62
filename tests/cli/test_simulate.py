"""`millstream simulate`: any number of schedules, and the seed of the first that breaks the promise."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.command_result import Millstream

from millstream.engines.simulated.world.disk import SimulatedEpochLog


def test_the_number_of_schedules_that_keep_the_promise_is_printed(millstream: Millstream, demo: Path) -> None:
    ran = millstream("simulate", "demo.yaml", "--schedules", 12, "--records", 60)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("demo: 12 schedules in ")
    assert "every schedule keeps the promise of exactly_once" in ran.out
    assert sorted(path.name for path in demo.iterdir()) == ["demo.yaml"]


def test_json_is_one_object(millstream: Millstream, demo: Path) -> None:
    guarantee = ("--set", "guarantee.delivery=at_least_once", "--set", "guarantee.checkpoint_every=2")
    ran = millstream("simulate", "demo.yaml", *guarantee, "--schedules", 12, "--records", 60, "--json")
    result = json.loads(ran.out)
    assert (result["delivery"], result["schedules"], result["wrong"]) == ("at_least_once", 12, None)
    assert result["starts"] >= 12 + result["faults"]["coordinator"] + result["faults"]["power"]
    assert result["epochs"] > 12


def test_several_jobs_give_the_result_of_one(millstream: Millstream, demo: Path) -> None:
    given = ("simulate", "demo.yaml", "--schedules", 12, "--records", 60, "--json")
    one, two = (json.loads(millstream(*given, "--jobs", jobs).out) for jobs in (1, 2))
    for result in (one, two):
        del result["seconds"], result["schedules_per_minute"]
    assert one == two


def test_a_schedule_that_breaks_the_promise_is_repeated_from_its_seed(
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
    assert lines[-1] == "seed 4  keeps the promise of exactly_once"
    assert any("logs the cut of epoch 0" in line for line in lines)
    assert millstream("simulate", "demo.yaml", "--records", 60, "--seed", 4, "--trace").out == ran.out


def test_an_invalid_config_is_not_simulated(millstream: Millstream, demo: Path) -> None:
    ran = millstream("simulate", "demo.yaml", "--set", "pipeline.model.type=nope")
    assert ran.code == 2 and "no such model is installed" in ran.err


@pytest.mark.parametrize(
    ("delivery", "why"),
    [("exactly_once", "exactly_once is impossible"), ("at_least_once", "a simulation cannot know the right results")],
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


def test_sources_without_records_are_refused(millstream: Millstream, folder: Path) -> None:
    (folder / "news.jsonl").write_text("")
    ran = millstream("simulate", "news.yaml")
    assert ran.code == 1 and "its sources have no records yet" in ran.err

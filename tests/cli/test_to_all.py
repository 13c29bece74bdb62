"""`to: all` in a config: `validate` refuses it where it cannot be, `explain` shows its price, a run keeps it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.command_result import Millstream

CONFIG = """\
name: paid
sources:
  orders: {type: generator, records: 60, seed: 1}
  rates: {type: generator, records: 30, seed: 2}
pipeline:
  steps:
    - {type: join, name: paid, from: [orders, {stream: rates, to: all}], by: label, within: 1h}
sinks: {paid: {type: files, format: jsonl}}
engine: {type: local, workers: 4}
"""
FROM = "from: [orders, {stream: rates, to: all}]"
STEP = f"{{type: join, name: paid, {FROM}, by: label, within: 1h}}"
ONLY = "only the second stream of a `join` can go `to: all`"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "paid.yaml"
    path.write_text(CONFIG)
    return path


MISTAKES = {
    "the first stream of a join": (
        FROM,
        "from: [{stream: orders, to: all}, rates]",
        f"from.0.to: {ONLY}, the small one; write `from: [rates, {{stream: orders, to: all}}]`",
    ),
    "a join with one stream": (
        FROM,
        "from: {stream: rates, to: all}",
        f"from.to: {ONLY}, the small one; write `from: [OTHER, {{stream: rates, to: all}}]`",
    ),
    "an outer join": (
        "within: 1h",
        "within: 1h, how: outer",
        "how: with `to: all`, no process knows which records of the second stream found no partner; "
        "write `how: left`, or leave `to: all` out",
    ),
    "a step that is no join": (
        STEP,
        f"{{type: dedupe, name: paid, {FROM}, by: label, within: 1h}}",
        f"from.1.to: step 'paid' is no join, and {ONLY}; write `rates`",
    ),
    "another grouping": (FROM, FROM.replace("to: all", "to: one"), 'from.1.to: "one" is not allowed; one of all'),
    "no grouping": (
        FROM,
        FROM.replace(", to: all", ""),
        "from.1: only the second stream of a `join` takes a mapping, with `to: all`",
    ),
    "an unknown key": (FROM, FROM.replace("to: all", "too: all"), "from.1.too: unknown key; did you mean `to`?"),
    "a wrong name": (FROM, FROM.replace("rates", '"a b"'), 'from.1.stream: "a b" is not allowed; it has to match'),
    "an unknown stream": (FROM, FROM.replace("rates", "rate"), "there is no stream 'rate'; did you mean `rates`?"),
    "a stream twice": (FROM, FROM.replace("rates", "orders"), "from: the stream 'orders' is named twice"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_line_and_key(millstream: Millstream, config: Path, mistake: str) -> None:
    before, after, message = MISTAKES[mistake]
    assert before in CONFIG
    config.write_text(CONFIG.replace(before, after))
    ran = millstream("validate", config.name)
    assert ran.code == 2
    assert "paid.yaml:7 pipeline.steps.0." in ran.err and message in ran.err


@pytest.mark.parametrize(("workers", "copies"), [(1, 1), (2, 1), (4, 3)])
def test_explain_shows_how_many_processes_get_the_stream(
    millstream: Millstream, config: Path, workers: int, copies: int
) -> None:
    chosen = ["--set", f"engine.workers={workers}"]
    content = json.loads(millstream("explain", config.name, "--json", *chosen).out)
    assert content["steps"][0]["copies"] == {"rates": copies}
    out = millstream("explain", config.name, *chosen).out
    if copies == 1:
        assert "  paid: one process holds the keys, so each record of rates is held once\n" in out
    else:
        assert "  paid: each record of rates is sent to 3 readers, and held 3 times; each record of the other" in out
    by_key = ["--set", "pipeline.steps.0.from.1=rates"]
    assert json.loads(millstream("explain", config.name, "--json", *by_key).out)["steps"][0]["copies"] == {}


def test_the_graph_says_which_stream_goes_to_all(millstream: Millstream, config: Path) -> None:
    out = millstream("explain", config.name, "--graph").out
    assert 'n1 -->|"to all"| n2' in out and "n0 --> n2" in out


def test_the_written_out_config_is_valid_and_has_the_edge(millstream: Millstream, config: Path) -> None:
    config.write_text(resolved := millstream("config", config.name).out)
    [step] = yaml.safe_load(resolved)["pipeline"]["steps"]
    assert step["from"] == ["orders", {"stream": "rates", "to": "all"}]
    assert millstream("validate", config.name).code == 0


def test_a_run_directory_keeps_the_edge_as_it_was(millstream: Millstream, config: Path) -> None:
    one = ["--set", "engine.workers=1", "--run", "runs/kept"]
    assert millstream("run", config.name, *one).code == 0
    assert millstream("run", config.name, *one).code == 0
    changed = millstream("run", config.name, *one, "--set", "pipeline.steps.0.from.1=rates")
    assert changed.code == 3 and 'from[1] was {"stream": "rates", "to": "all"}, is "rates"' in changed.err

"""The rows of windows that lack the records before a hand-over say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from registry.engines import ENGINES
from support.histories import HereSession

from millstream.api.run import Run
from millstream.config.load import Loaded, read_config
from millstream.history.registration import register
from millstream.history.train import train
from millstream.runs.directory import RunDirectory
from millstream.runs.fork import fork_run
from millstream.runs.start import Options, start

RECORDS, HALF = 1500, 750
LABELS = ("sport", "film", "politics")

WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"type": "tumbling", "size": "1h"},
    "sliding": {"type": "sliding", "size": "1h", "slide": "20m"},
    "session": {"type": "session", "gap": "1m"},
    "predicate": {"type": "predicate", "begins": "windowing:begins"},
    "count": {"type": "count", "size": 200},
}


def second(number: int) -> int:
    """The time of a record: one each ten seconds, and every hundred records a silence of five minutes."""
    return number * 10 + number // 100 * 300


@pytest.fixture
def pipeline(
    config: dict[str, Any], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_code: Path
) -> Any:
    """A function that returns a config whose model is followed by every kind of window."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    (user_code / "windowing.py").write_text(
        "def begins(record):\n    return record['text'].endswith('0')\n\n\n"
        "def count(record, state):\n    return {}, (state or 0) + 1\n\n\n"
        "def close(key, state):\n    return {'count': str(state)}\n"
    )
    rows = [
        {"text": f"{LABELS[i % 3]} word{i % 17} about {i}", "label": LABELS[i % 3], "time": second(i)}
        for i in range(RECORDS)
    ]
    (tmp_path / "news.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config["source"] = {
        "type": "files",
        "path": str(tmp_path / "news.jsonl"),
        "fields": {name: name for name in ("text", "label", "time")},
    }
    shares = [
        {"type": "popularity", "name": kind, "of": "label", "window": window, "from": "classify"}
        for kind, window in WINDOWS.items()
    ]
    by_key = {**shares[0], "name": "by_label", "by": "label", "emit": {"early": "20m"}}
    top = {**shares[0], "type": "top_k", "name": "top", "k": 3}
    visits = {**shares[2], "name": "visits", "by": "label"}
    ended: dict[str, Any] = {"type": "per_key", "name": "keys", "key": "label", "from": "classify", "idle": "1m"}
    ended |= {"function": "windowing:count", "ended": "windowing:close", "makes": ["count"]}

    def make(model: dict[str, Any] | None = None, **changes: Any) -> Loaded:
        features, classify = config["pipeline"]["steps"][1:]
        classify = {**classify, "model": model or classify["model"]}
        steps = [features, classify, *shares, top, by_key, visits, ended]
        return read_config({**config, "pipeline": {"steps": steps}, **changes}, tmp_path, "small.yaml")

    return make


@pytest.fixture
def champion(pipeline: Any, tmp_path: Path) -> str:
    """The address of a model that has learned the first records."""
    start(pipeline(), Options(tmp_path / "first", records=HALF))
    return str(Run(tmp_path / "first").export("champion").uri)


OUTPUTS = [f"{kind}.topics" for kind in (*WINDOWS, "by_label", "visits")] + ["top", "ended"]


def rows_of(run: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: Run(run).output(name).to_pylist() for name in OUTPUTS}


def measured(row: dict[str, Any]) -> tuple[Any, ...]:
    """The window, the key and the counts of a row, without what the past of its key says."""
    names = ("_window", "label", "value", "topic", "count")
    return tuple(row.get(name) for name in names)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_without_the_mark_are_those_of_the_whole_log(
    engine: dict[str, Any], pipeline: Any, champion: str, tmp_path: Path
) -> None:
    start(pipeline(), Options(tmp_path / "whole"))
    start(pipeline({"from": champion}, engine={**engine, "epoch": {"max_records": 300}}), Options(tmp_path / "second"))
    whole, second_run = rows_of(tmp_path / "whole"), rows_of(tmp_path / "second")
    assert not any("_partial" in row for rows in whole.values() for row in rows)
    for name, rows in second_run.items():
        marks = [row["_partial"] for row in rows]
        if name == "count.topics":  # its windows count the records that the run reads
            assert not any(marks)
            continue
        finals = [row for row in rows if row.get("_final", True)]  # early rows depend on the cuts
        complete = {measured(row) for row in finals if not row["_partial"]}
        known = {measured(row) for row in whole[name]}
        assert complete and complete <= known, name
        # a window that begins with a record of its own has no earlier ones
        assert name == "predicate.topics" or {measured(row) for row in finals} - known, name
        assert len({(row["_window"], row["_partial"]) for row in rows}) == len({row["_window"] for row in rows}), name


def test_a_restart_a_replay_and_an_audit_have_the_same_marks(pipeline: Any, champion: str, tmp_path: Path) -> None:
    begun = pipeline({"from": champion})
    start(begun, Options(tmp_path / "second", records=200))
    start(begun, Options(tmp_path / "second"))
    start(begun, Options(tmp_path / "again", replay=tmp_path / "second"))
    assert str(Run(tmp_path / "second").audit().state) == "precise"
    assert rows_of(tmp_path / "again") == rows_of(tmp_path / "second")


def test_a_fork_and_a_replay_without_the_registered_model_in_the_config_have_the_same_marks(
    pipeline: Any, champion: str, tmp_path: Path
) -> None:
    start(pipeline({"from": champion}), Options(tmp_path / "second"))
    fork_run(RunDirectory.find(tmp_path / "second"), pipeline(), tmp_path / "fork", from_start=True)
    start(pipeline(), Options(tmp_path / "fork", records=300))
    start(pipeline(), Options(tmp_path / "fork"))
    expected = rows_of(tmp_path / "second")
    assert any(row["_partial"] for rows in expected.values() for row in rows)
    assert rows_of(tmp_path / "fork") == expected
    start(pipeline(), Options(tmp_path / "again", replay=tmp_path / "second"))
    assert rows_of(tmp_path / "again").keys() == expected.keys()
    assert all("_partial" in row for rows in rows_of(tmp_path / "again").values() for row in rows)


def test_a_trained_version_has_the_latest_time_of_the_run(pipeline: Any, champion: str, tmp_path: Path) -> None:
    log = tmp_path / "news.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:HALF]))
    trained = register(train(pipeline(), tmp_path / "model", sessions=HereSession), pipeline(), "trained")
    log.write_text("".join(lines))
    for name, uri in (("second", champion), ("trained", trained.uri)):
        start(pipeline({"from": uri}), Options(tmp_path / name))
    assert rows_of(tmp_path / "trained") == rows_of(tmp_path / "second")


def test_a_time_in_the_config_marks_the_windows_up_to_it(pipeline: Any, tmp_path: Path) -> None:
    start(pipeline(partial_until="1970-01-01T02:00:00Z"), Options(tmp_path / "run"))
    windows = {
        row["_window"].hour: row["_partial"] for row in Run(tmp_path / "run").output("tumbling.topics").to_pylist()
    }
    assert windows == {0: True, 1: True, 2: True, 3: False, 4: False}
    assert not any(row["_partial"] for row in Run(tmp_path / "run").output("count.topics").to_pylist())

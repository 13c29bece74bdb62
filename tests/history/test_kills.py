"""Kills of a backfill and of a training: the next call does what is missing, and the results are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.documents import sign_documents, write_documents
from support.histories import HereSession
from support.killed_at import append, flow
from support.killed_histories import kill_history

from millstream.config.load import load_config
from millstream.errors import InUse
from millstream.history.backfill import backfill
from millstream.history.features import Progress
from millstream.history.train import train

POINTS = {
    "before a note": "from millstream.history.folder import HistoryFolder; before(HistoryFolder, 'finish')",
    "in a file": "before(pathlib.Path, 'rename', lambda path, target: target.suffix in ('.arrow', '.parquet'))",
    "before the result": "from millstream.history.folder import Facts; before(Facts, 'complete')",
}
LEARNING = {
    "while learning": "from millstream.history.how import block_records; before(block_records, 'process_batch')",
    "in a state": "from millstream.state import model_version; before(model_version, 'write_whole')",
    "after the version": "from millstream.history.folder import Facts; before(Facts, 'complete')",
}


_FEATURES = {"type": "hashed_text", "name": "features", "dimensions": 256}
STEPS: dict[str, list[dict[str, Any]]] = {
    "keyed": [
        {"type": "filter", "name": "short", "function": "support.user_functions:short", "rest": True},
        {"type": "join", "from": ["short", "short.rest"], "by": "author", "within": "8m"},
        {"type": "classify", "model": {"type": "naive_bayes", "features": {}}},
    ],
    "weights": [{"type": "classify", "model": {"type": "softmax", "features": {"dimensions": 256}}}],
    "stateless": [_FEATURES, {"type": "classify", "model": {"type": "complement_nb", "batch_size": 16}}],
}


def write_config(folder: Path, steps: str) -> Path:
    write_documents(folder / "documents")
    sign_documents(folder / "documents")
    fields = {name: name for name in ("text", "label", "time", "author")}
    config = {
        "name": "killed",
        "source": {"type": "files", "path": "documents", "fields": fields},
        "pipeline": {"steps": STEPS[steps]},
        "engine": {"type": "local", "epoch": {"max_records": 24}},
    }
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def kill(module: str, config: Path, out: Path, point: str, number: int, **options: Any) -> None:
    kill_history(f"millstream.history.{module}:{module}", config, out, point, number, options)


def notes_of(out: Path) -> dict[Path, int]:
    return {note: note.stat().st_mtime_ns for note in out.rglob("done/*.json")}


@pytest.mark.parametrize(("point", "number"), [("before a note", 9), ("in a file", 25)])
def test_a_killed_backfill_is_completed(tmp_path: Path, point: str, number: int) -> None:
    config, out = write_config(tmp_path, "keyed"), tmp_path / "out"
    kill("backfill", config, out, POINTS[point], number)
    done = notes_of(out)
    found = backfill(load_config(config), out, sessions=HereSession, block_records=30)
    assert done.items() <= notes_of(out).items()  # no task was run again
    golden = backfill(load_config(config), tmp_path / "golden", sessions=HereSession, block_records=30)
    for key in ("records", "rows", "rejects", "digests", "partitions", "epochs"):
        assert found.result[key] == golden.result[key], key
    assert not [*out.rglob("*.tmp")]


def test_a_backfill_that_was_killed_before_its_result_is_completed(tmp_path: Path) -> None:
    config, out = write_config(tmp_path, "stateless"), tmp_path / "out"
    kill("backfill", config, out, POINTS["before the result"], 1)
    assert json.loads((out / "backfill.json").read_text())["result"] is None
    done = notes_of(out)
    assert not backfill(load_config(config), out, sessions=HereSession, block_records=30).was_there
    assert notes_of(out) == done


@pytest.mark.parametrize(
    ("point", "number"), [("while learning", 2), ("in a state", 2), ("in a state", 3), ("after the version", 1)]
)
def test_a_killed_training_is_completed_with_the_same_model(tmp_path: Path, point: str, number: int) -> None:
    config, out = write_config(tmp_path, "stateless"), tmp_path / "out"
    kill("train", config, out, LEARNING[point], number)
    seen: list[Progress] = []
    found = train(load_config(config), out, sessions=HereSession, block_records=30, watch=seen.append)
    learned = next(progress.before for progress in seen if progress.doing == "learned")
    assert learned == 0 if (point, number) == ("in a state", 2) else learned >= 1  # from the newest whole state on
    golden = train(load_config(config), tmp_path / "golden", sessions=HereSession, block_records=30)
    assert found.version.digest == golden.version.digest == found.result["digest"]
    assert found.version.trained == golden.version.trained
    for key in ("learned", "labelled", "correct"):
        assert found.result[key] == golden.result[key]
    assert ("longest_cpu_seconds" in found.result) is (learned == 0)  # a killed task stores no time


@pytest.mark.parametrize(
    ("point", "number", "before"),
    [
        ("while learning", 6, 5),
        ("in a state", 10, 4),  # the average of the first round
        ("in a state", 15, 6),  # a part of the second one
        ("in a state", 20, 8),  # the average of all
        ("after the version", 1, 8),
    ],
)
def test_a_killed_averaged_training_is_completed_with_the_same_model(
    tmp_path: Path, point: str, number: int, before: int
) -> None:
    config, out = write_config(tmp_path, "weights"), tmp_path / "out"
    options: dict[str, Any] = {"how": "averaged", "round_records": 100}
    kill("train", config, out, LEARNING[point], number, **options)
    seen: list[Progress] = []
    found = train(load_config(config), out, sessions=HereSession, block_records=30, watch=seen.append, **options)
    assert next((progress.before for progress in seen if progress.doing == "learned"), 8) == before
    golden = train(load_config(config), tmp_path / "golden", sessions=HereSession, block_records=30, **options)
    assert (golden.result["parts"], golden.result["rounds"], golden.result["learned"]) == (4, 2, 191)
    assert "longest_cpu_seconds" in golden.result and "longest_cpu_seconds" not in found.result
    assert found.version.digest == golden.version.digest == found.result["digest"]
    assert found.version.trained == golden.version.trained
    for key in ("learned", "labelled", "correct"):
        assert found.result[key] == golden.result[key]


@pytest.mark.parametrize(
    ("module", "point", "number"),
    [("backfill", POINTS["before a note"], 3), ("train", LEARNING["while learning"], 2)],
)
def test_a_killed_one_ends_where_it_was_planned_although_records_flow(
    tmp_path: Path, module: str, point: str, number: int
) -> None:
    def write_config_of(journal: Path) -> Path:
        source = {"type": "journal", "path": str(journal), "fields": {name: name for name in ("text", "label", "time")}}
        config = {"name": "killed", "source": source, "pipeline": {"steps": STEPS["stateless"]}}
        path = tmp_path / f"{journal.name}.yaml"
        path.write_text(yaml.safe_dump({**config, "engine": {"type": "local", "epoch": {"max_records": 24}}}))
        return path

    function = backfill if module == "backfill" else train
    config = write_config_of(tmp_path / "flowing")
    append(tmp_path / "flowing", 0, 200)
    with flow(tmp_path / "flowing", 200):
        kill(module, config, tmp_path / "out", point, number)
        found = function(load_config(config), tmp_path / "out", sessions=HereSession, block_records=30)
    assert found.result["records"] >= 200
    append(tmp_path / "still", 0, found.result["records"])
    still = write_config_of(tmp_path / "still")
    golden = function(load_config(still), tmp_path / "golden", sessions=HereSession, block_records=30)
    for key in ("records", "digests", "digest"):
        assert found.result.get(key) == golden.result.get(key), key


@pytest.mark.parametrize("module", ["backfill", "train"])
def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path, module: str) -> None:
    loaded, out, refused = load_config(write_config(tmp_path, "stateless")), tmp_path / "out", list[InUse]()
    function = backfill if module == "backfill" else train

    def start_another(_: Progress) -> None:
        with pytest.raises(InUse, match="another writer, in this process or another, is appending to") as found:
            function(loaded, out, sessions=HereSession)
        refused.append(found.value)

    function(loaded, out, sessions=HereSession, watch=start_another)
    assert refused

"""The run directory: `--fresh` loses no file, wherever it is interrupted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millstream.errors import Contradiction
from millstream.runs.config_difference import difference
from millstream.runs.directory import RunDirectory

CONTENT = (
    "cache/news/a.npy",
    "config.yaml",
    "epochs/0.journal",
    "outputs/topics/part-00000001.parquet",
    "checkpoints/0.json",
    "layers/0.layer",
)


STEPS = [{"name": "words", "type": "map"}, {"name": "classify", "type": "classify"}]


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ([*STEPS, {"name": "top", "type": "top_k"}], "'top' is new"),
        (STEPS[:1], "'classify' is missing"),
        ([{**STEPS[0], "name": "clip"}, STEPS[1]], "'words' is now called 'clip'"),
        ([{"name": "top", "type": "top_k"}, STEPS[1]], "'top' is new, 'words' is missing"),
        (STEPS[::-1], "the order was words, classify, is classify, words"),
        ([{**STEPS[0], "type": "filter"}, STEPS[1]], 'words.type was "map", is "filter"'),
    ],
)
def test_a_step_that_is_new_missing_or_renamed_is_named(now: list[dict[str, str]], message: str) -> None:
    assert difference(STEPS, now) == message


class Died(BaseException):
    """The end of the process."""


def empty(path: Path) -> RunDirectory:
    """The directory of a first start, which has the lock."""
    path.mkdir(exist_ok=True)
    (path / "lock").touch()
    return RunDirectory(path)


def make_run(path: Path) -> RunDirectory:
    """A run directory with one file in each of its folders."""
    directory = empty(path)
    directory.make({}, path.parent)
    for name in CONTENT:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)
    return directory


def files(path: Path) -> list[str]:
    return sorted(str(found.relative_to(path)) for found in path.rglob("*") if found.is_file())


@pytest.mark.parametrize("renames", range(1, 6))
@pytest.mark.parametrize("fresh", [False, True])
def test_an_interrupted_archive_is_completed_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int, fresh: bool
) -> None:
    directory, left = make_run(tmp_path / "demo"), renames
    real = os.rename

    def rename(*arguments: Path) -> None:
        nonlocal left
        if left == 0:
            raise Died
        left -= 1
        real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        with pytest.raises(Died):
            directory.archive()
    assert not directory.initialized
    if fresh:
        assert directory.archive() == tmp_path / "demo.1"
    directory.make({}, tmp_path)
    assert files(tmp_path / "demo.1") == sorted([*CONTENT, "run.json"])
    assert files(tmp_path / "demo") == ["lock", "run.json"]
    assert directory.archive() == tmp_path / "demo.2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo", "demo.1", "demo.2"]


def test_files_in_a_directory_without_run_json_are_moved_and_not_deleted(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "demo")
    directory.archive()
    make_run(tmp_path / "demo")
    (tmp_path / "demo/run.json").unlink()
    directory.make({}, tmp_path)
    assert files(tmp_path / "demo.2") == sorted(CONTENT)


def test_partial_files_of_an_interrupted_first_start_are_not_archived(tmp_path: Path) -> None:
    directory = empty(tmp_path / "demo")
    (tmp_path / "demo/run.json.123.tmp").write_text("{")
    (tmp_path / "demo/epochs").mkdir()
    directory.make({}, tmp_path)
    assert directory.initialized
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    (tmp_path / "demo/run.json").unlink()
    (tmp_path / "demo/thesis.1.tmp").write_text("the only copy")
    with pytest.raises(Contradiction, match=r"holds thesis\.1\.tmp, which is not a file of a run"):
        directory.make({}, tmp_path)

"""`millstream init`: a project that runs at once, and whose test passes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.command_result import Millstream

from millstream.cli.project_template import project_files, project_name
from millstream.config.load import load_config


@pytest.fixture
def project(tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, in the current folder."""
    monkeypatch.chdir(tmp_path)
    ran = millstream("init", "my news")
    assert ran.code == 0
    assert ran.out.endswith("commands to try:\n  cd 'my news'\n  millstream run pipeline.yaml\n")
    monkeypatch.chdir(tmp_path / "my news")
    return tmp_path / "my news"


def test_a_new_project_runs_at_once_with_a_function_of_its_own(project: Path) -> None:
    program = [str(Path(sys.executable).with_name("millstream"))]
    ran = subprocess.run([*program, "run", "pipeline.yaml", "--json"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert (summary["pipeline"], summary["records"], summary["delivered"]["rejects"]) == ("my-news", 400, 0)
    assert summary["accuracy"] > 0.8
    assert summary["delivered"]["topics"] > 0
    read = subprocess.run([*program, "read", "runs/my-news", "topics"], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")


def test_the_test_of_a_new_project_passes(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_a_project_for_kafka_has_an_overlay_that_reads_a_topic(
    tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert millstream("init", tmp_path / "news", "--kafka").code == 0
    monkeypatch.chdir(tmp_path / "news")
    overlaid = load_config("pipeline.yaml", environment={}, overlays=["pipeline.kafka.yaml"]).config
    assert (overlaid.name, overlaid.source.config.topic) == ("news-kafka", "news-news")
    assert millstream("validate", "pipeline.yaml", "--env", "kafka").code == 0
    assert "millstream log import data/news.jsonl kafka://127.0.0.1:9092/news-news" in Path("README.md").read_text()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: (path.mkdir(), (path / "mine").touch()), "is not empty, and `init` replaces no files"),
        (lambda path: path.touch(), "is a file; name a new folder"),
    ],
)
def test_init_replaces_nothing(tmp_path: Path, millstream: Millstream, make: object, message: str) -> None:
    assert callable(make)
    make(tmp_path / "there")
    ran = millstream("init", tmp_path / "there")
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err


def test_a_project_below_a_file_is_refused(
    tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    ran = millstream("init", "file/news/project")
    assert (ran.code, ran.out) == (1, "")
    assert "file is a file; name a new folder" in ran.err
    empty = millstream("init", "")
    assert (empty.code, empty.out) == (2, "")
    assert "DIR is empty; name a new folder" in empty.err
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_the_command_to_try_enters_a_folder_whose_name_begins_with_a_dash(
    tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "\n  cd -- -news\n" in millstream("init", "--", "-news").out


def test_an_empty_folder_is_filled(tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = millstream("init", ".")
    assert ran.code == 0 and "  cd " not in ran.out
    assert yaml.safe_load(Path("pipeline.yaml").read_text())["name"] == project_name(tmp_path.name)


def test_every_project_has_the_same_data() -> None:
    assert project_files("a")["data/news.jsonl"] == project_files("b", kafka=True)["data/news.jsonl"]


@pytest.mark.parametrize("folder", ["2026", "true", "null", "1e3"])
def test_a_project_may_have_the_name_of_another_type(folder: str) -> None:
    for text in (project_files(folder, kafka=True)[name] for name in ("pipeline.yaml", "pipeline.kafka.yaml")):
        assert yaml.safe_load(text)["name"] in (folder, f"{folder}-kafka")

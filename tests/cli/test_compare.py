"""`millstream compare` refuses wrong studies and foreign folders before it starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.command_result import Millstream
from support.studies import write_study


def test_a_wrong_study_ends_with_the_code_of_a_wrong_config(millstream: Millstream, tmp_path: Path) -> None:
    path = write_study(tmp_path / "small.yaml", {"treatments": ["twice"]})
    found = millstream("compare", path, "--out", tmp_path / "out")
    assert found.code == 2
    assert f"{path}:" in found.err and 'treatments.0: `type` "twice" is not allowed' in found.err
    assert not (tmp_path / "out").exists()


def test_a_missing_study_is_named(millstream: Millstream, tmp_path: Path) -> None:
    write_study(tmp_path / "small.yaml", {})
    found = millstream("compare", tmp_path / "smal.yaml")
    assert found.code == 2 and "no such file" in found.err and "small.yaml" in found.err


def test_a_folder_of_another_study_ends_with_the_code_of_a_contradiction(
    millstream: Millstream, tmp_path: Path
) -> None:
    path = write_study(tmp_path / "small.yaml", {})
    (tmp_path / "out").mkdir()
    (tmp_path / "out/study.json").write_text('{"format": 1, "study": "other", "data": "x"}')
    found = millstream("compare", path, "--out", tmp_path / "out")
    assert found.code == 3
    assert "holds the trials of the study 'other', not of 'small'; choose another --out" in found.err
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["study.json"]


def test_a_value_from_outside_is_not_in_the_message(
    millstream: Millstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEXTS", str(tmp_path / "s3cret"))
    path = write_study(tmp_path / "small.yaml", {"data__source": {"type": "files", "path": "${TEXTS}/absent.jsonl"}})
    found = millstream("compare", path, "--out", tmp_path / "out")
    assert found.code != 0 and "${TEXTS}/absent.jsonl" in found.err
    assert "s3cret" not in found.err


@pytest.mark.parametrize("data", [{"name": "small"}, ["small"], None])
def test_a_file_that_is_no_study_is_refused(millstream: Millstream, tmp_path: Path, data: object) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(data))
    found = millstream("compare", tmp_path / "small.yaml")
    assert found.code == 2
    assert "required" in found.err or "a study is a mapping with name, data, streams, learners" in found.err

"""`ms.compare`: wrong arguments are refused before anything runs, and errors name arguments, not options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.studies import run_here, write_study

import millstream as ms
from millstream.study.study_file import load_study


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": 0}, "tasks: 0 is not allowed; give a whole number of at least 1"),
        ({"quick": "no"}, "quick: 'no' is not allowed; give True or False"),
        ({"out": 3}, "out: 3 is not allowed; give a path"),
        ({"set": ["seeds=1"]}, "set: an object of the class list is not allowed; give a mapping of key paths"),
        ({"set": {"seeds": 0}}, r"small.yaml \(set\) seeds: empty, so the study has no trials"),
    ],
)
def test_a_wrong_argument_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write_study(tmp_path / "small.yaml", {})
    with pytest.raises(ms.ConfigError, match=message):
        ms.compare(path, **{"out": tmp_path / "out", **changes})
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_study_is_refused_with_the_argument_to_change(tmp_path: Path) -> None:
    run_here(load_study(write_study(tmp_path / "small.yaml", {"name": "other"})), tmp_path / "out")
    path = write_study(tmp_path / "small.yaml", {})
    with pytest.raises(
        ms.MillstreamError, match="of the study 'other', not of 'small'; choose another `out`, or remove"
    ):
        ms.compare(path, out=tmp_path / "out")

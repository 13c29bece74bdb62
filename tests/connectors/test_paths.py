"""A path of a config names only files that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.errors import ConfigError
from millstream_connectors.files.paths import find

READ = ("a.jsonl", "b.ndjson", "c.json", "d.jsonl.gz", "e.json.gz", "f.parquet")
NOT_READ = ("a.csv", "b.txt", "c.parquet.gz", "d.gz", "e", "f.jsonl.bak")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "news").mkdir()
    for name in (*READ, *NOT_READ):
        (tmp_path / "news" / name).touch()
    return tmp_path


def test_a_folder_or_a_pattern_names_the_readable_files_in_it(folder: Path) -> None:
    assert find(folder, "news") == (folder / "news", list(READ))
    assert find(folder, "news/*") == (folder / "news", list(READ))
    assert find(folder, "*/*.gz") == (folder, ["news/d.jsonl.gz", "news/e.json.gz"])


@pytest.mark.parametrize("name", READ)
def test_a_file_of_a_known_ending_is_found(folder: Path, name: str) -> None:
    assert find(folder, f"news/{name}") == (folder / "news", [name])


@pytest.mark.parametrize("name", NOT_READ)
def test_a_file_of_another_ending_is_refused_with_the_known_endings(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"/{name} is no file that can be read: .*\.jsonl, .* or \.parquet"):
        find(folder, f"news/{name}")


def test_a_pattern_that_matches_only_other_files_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file matches .*/\*\.csv and can be read: none ends in \.jsonl"):
        find(folder, "news/*.csv")


@pytest.mark.parametrize("path", ["../news.jsonl", "news/../nothing/*.jsonl", "x/../y"])
def test_the_error_for_a_missing_path_shows_it_without_dots(folder: Path, path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        find(folder / "news", path)
    assert ".." not in str(refused.value)

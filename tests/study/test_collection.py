"""The collection of a study: all labelled records of its source, in the order of time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.studies import RunStudy, WriteStudy

from millstream.study.collection import data_identity, open_collection, write_collection
from millstream.study.study_file import load_study


@pytest.fixture
def labels_of(write: WriteStudy, tmp_path: Path) -> Any:
    """Return a function that gives the labels of records, as (label, time), in the order of the collection."""

    def labels(records: Sequence[tuple[str | None, int | None]], **fields: str) -> list[str]:
        lines = (json.dumps({"text": "one", "label": label, "at": time}) for label, time in records)
        (tmp_path / "some.jsonl").write_text("\n".join(lines))
        source = {"type": "files", "path": "some.jsonl", "fields": {"text": "text", "label": "label", **fields}}
        loaded = load_study(write(data__source=source))
        write_collection(loaded, tmp_path / "collection.arrow", data_identity(loaded, tmp_path))
        found = open_collection(tmp_path / "collection.arrow")
        return [found.names[label] for label in found.labels]

    return labels


def test_records_are_in_the_order_of_time(labels_of: Any) -> None:
    assert labels_of([("a", 3), ("b", 1), ("c", 2), ("d", 1)], time="at") == ["b", "d", "c", "a"]


def test_a_source_without_times_keeps_its_order(labels_of: Any) -> None:
    assert labels_of([("a", 3), ("b", 1), ("c", 2)]) == ["a", "b", "c"]


def test_a_record_without_a_time_follows_the_one_before_it(labels_of: Any) -> None:
    records = [("first", None), ("a", 3), ("after a", None), ("b", 1), ("after b", None), ("c", 2)]
    assert labels_of(records, time="at") == ["first", "b", "after b", "c", "a", "after a"]


def test_records_without_a_label_are_left_out(labels_of: Any) -> None:
    assert labels_of([("a", 1), (None, 2), ("b", 3)], time="at") == ["a", "b"]


def test_an_empty_label_is_a_label(labels_of: Any) -> None:
    assert labels_of([("a", 1), ("", 2)], time="at") == ["a", ""]


def test_a_collection_is_made_again_only_for_other_data(run: RunStudy, tmp_path: Path) -> None:
    file = tmp_path / "out/collection.arrow"
    run(seeds=1)
    made = file.stat().st_ino
    run(seeds=2)
    assert file.stat().st_ino == made
    file.with_name("collection.arrow.tmp").write_text("the rest of a killed command")
    file.unlink()
    run(seeds=3)
    assert [found.name for found in file.parent.glob("collection*")] == ["collection.arrow"]

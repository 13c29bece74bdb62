"""Labels are read from a pipeline's own sources, in order, and a source that cannot be read says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from millstream.config.load import read_config
from millstream.study.label_sample import LabelSample, NoSample, label_sample

STEPS = {"use": "text_topics", "popularity": None}


def sample_of(folder: Path, source: object, most: int = 1000, field: str = "label") -> LabelSample | NoSample:
    several = isinstance(source, dict) and "type" not in source
    config = {"name": "p", ("sources" if several else "source"): source, "pipeline": STEPS, "engine": {"type": "local"}}
    return label_sample(read_config(config, folder, "p.yaml"), field, most)


def written(
    folder: Path, name: str, labels: Sequence[str | None], start: float | None = None, step: float = 1.0
) -> None:
    rows: list[dict[str, object]] = [{"text": "a", "label": label} for label in labels]
    if start is not None:
        rows = [{**row, "time": start + step * index} for index, row in enumerate(rows)]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_file_gives_its_labels_in_order_and_its_rate(tmp_path: Path) -> None:
    written(tmp_path, "a.jsonl", ["x", "y", None, "x"], start=1e9, step=0.5)
    found = sample_of(tmp_path, {"type": "files", "path": "a.jsonl"})
    assert isinstance(found, LabelSample)
    assert [found.labels.names[code] for code in found.labels.codes] == ["x", "y", "x"]
    assert (found.records, found.labelled, found.whole) == (4, 0.75, True)
    assert found.records_per_second == pytest.approx(2)


def test_only_the_first_records_are_read(tmp_path: Path) -> None:
    written(tmp_path, "a.jsonl", ["x"] * 50 + ["y"] * 50)
    found = sample_of(tmp_path, {"type": "files", "path": "a.jsonl"}, most=50)
    assert isinstance(found, LabelSample)
    assert (found.labels.names, found.records, found.whole, found.records_per_second) == (("x",), 50, False, None)


def test_several_sources_are_merged_by_time(tmp_path: Path) -> None:
    written(tmp_path, "a.jsonl", ["a"] * 5, start=1e9)
    written(tmp_path, "b.jsonl", ["b"] * 5, start=1e9 + 0.5)
    found = sample_of(tmp_path, {name: {"type": "files", "path": f"{name}.jsonl"} for name in "ab"})
    assert isinstance(found, LabelSample)
    assert [found.labels.names[code] for code in found.labels.codes] == ["a", "b"] * 5


def test_records_that_cannot_be_read_have_no_label(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "x"}\nno json\n{"text": "a", "label": "y"}\n')
    found = sample_of(tmp_path, {"type": "files", "path": "a.jsonl"})
    assert isinstance(found, LabelSample) and found.records == 3 and len(found.labels) == 2


def test_a_generator_is_read_also_if_it_never_ends_or_has_a_rate(tmp_path: Path) -> None:
    every = {"type": "generator", "seed": 3, "records": 1000}
    endless = {"type": "generator", "seed": 3, "records": None, "rate": 5}
    whole, first = sample_of(tmp_path, every), sample_of(tmp_path, endless, most=500)
    assert isinstance(whole, LabelSample) and isinstance(first, LabelSample)
    assert whole.whole and not first.whole
    assert len(whole.labels) == 1000 and len(first.labels) == 500
    assert np.isclose(whole.records_per_second or 0, 1, rtol=0.01)


@pytest.mark.parametrize(
    ("source", "field", "reason"),
    [
        ({"type": "journal", "path": "log"}, "label", "has no end; measure a file of its records"),
        ({"type": "kafka", "bootstrap": "127.0.0.1:9", "topic": "t"}, "label", "has no end"),
        ({"type": "generator"}, "mood", "has no field 'mood'; a step makes it"),
        ({"type": "generator", "unlabelled": 1.0, "records": 9}, "label", "none of the first 9 records has a 'label'"),
    ],
)
def test_a_source_that_gives_no_labels_says_why(tmp_path: Path, source: object, field: str, reason: str) -> None:
    found = sample_of(tmp_path, source, field=field)
    assert isinstance(found, NoSample) and reason in found.reason


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    found = sample_of(tmp_path, {"type": "files", "path": "a.jsonl"})
    assert isinstance(found, NoSample) and "no records yet" in found.reason

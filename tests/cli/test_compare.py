"""`millstream compare` prints the cells of a study, and refuses wrong studies and folders before it starts Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pyarrow import csv
from support.command_result import Millstream
from support.studies import run_here, write_study

from millstream import extras
from millstream.study.study_file import load_study


def test_a_wrong_study_ends_with_the_code_of_a_wrong_config(millstream: Millstream, tmp_path: Path) -> None:
    path = write_study(tmp_path / "small.yaml", {"treatments": ["twice"]})
    found = millstream("compare", path, "--out", tmp_path / "out")
    assert found.code == 2
    assert f"{path}:" in found.err and 'treatments.0: `type` "twice" is not allowed' in found.err
    assert not (tmp_path / "out").exists()


def test_the_cells_are_printed_with_intervals_and_verdicts_and_the_plots_with_their_folder(
    millstream: Millstream, tmp_path: Path
) -> None:
    path, out = write_study(tmp_path / "small.yaml", {"margins": {"iid": 0.2}, "seeds": 3}), tmp_path / "out"
    run_here(load_study(path), out)
    found = millstream("compare", path, "--out", out)
    head, verdicts, names, *rows, plots = found.out.splitlines()
    assert head.startswith(f"small: 9 trials in {out}, in ")
    assert verdicts == "  of 2 cells, after Holm's correction: 2 equivalent within the margin"
    assert names.split()[-4:] == ["difference", "verdict", "changed", "bias"]
    assert [row.split()[2] for row in rows] == ["exactly_once", "at_least_once", "at_most_once"]
    assert all("\u00b1" in row and " equivalent " in row for row in rows[1:]) and "\u00b1" not in rows[0]
    assert all(len(line) <= 120 for line in (verdicts, names, *rows))
    written = sorted(file.name for file in (out / "plots").iterdir())
    assert sorted(plots.removeprefix("  plots: ").removesuffix(f" in {out / 'plots'}").split(", ")) == written != []
    assert len((out / "cells.csv").read_text().splitlines()) == 1 + 3


def test_a_large_study_prints_the_cells_with_the_largest_differences(millstream: Millstream, tmp_path: Path) -> None:
    failures = [{"span": span, "number": 2} for span in range(10, 31)]
    path, out = write_study(tmp_path / "small.yaml", {"failures": failures}), tmp_path / "out"
    run_here(load_study(path), out)
    rows = millstream("compare", path, "--out", out).out.splitlines()[3:-2]
    printed = [abs(float(row.split()[7])) for row in rows]
    assert len(rows) == 40 and "exactly_once" not in " ".join(rows)
    everything = csv.read_csv(out / "cells.csv")["accuracy_difference"].to_pylist()
    assert sorted(printed) == pytest.approx(sorted(100 * abs(each) for each in everything)[-40:], abs=0.01)


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


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.recrods=300", "data.recrods: unknown key; did you mean `records`?"),
        ("seeds", "--set"),
        ("seeds=none", "seeds"),
        ("treatments=[twice]", 'treatments.0: `type` "twice" is not allowed'),
    ],
)
def test_a_wrong_value_of_set_ends_with_the_code_of_a_wrong_config(
    millstream: Millstream, tmp_path: Path, setting: str, message: str
) -> None:
    path = write_study(tmp_path / "small.yaml", {})
    found = millstream("compare", path, "--out", tmp_path / "out", "--set", setting)
    assert (found.code, found.out) == (2, "") and message in found.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("module", "extra"), [("river", "river"), ("pyspark", "spark")])
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    millstream: Millstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda asked: asked != module)
    path = write_study(tmp_path / "small.yaml", {"learners": {"river": {"type": "river_nb"}}})
    found = millstream("compare", path, "--out", tmp_path / "out")
    assert found.code == 2 and f"pip install 'millstream[{extra}]'" in found.err
    assert not (tmp_path / "out").exists()


def test_labels_cannot_write_to_the_terminal(millstream: Millstream, tmp_path: Path) -> None:
    labels = ["\x1b]0;title\x07red", "\x9b31m\nmillstream: done" + " and so on" * 100]
    lines = [json.dumps({"text": f"word{number % 7}", "label": labels[number % 2]}) for number in range(200)]
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    changes = {
        "data__source": {"type": "files", "path": "some.jsonl", "fields": {"text": "text", "label": "label"}},
        "data__records": 100,
        "data__holdout": 50,
        "failures": [{"span": 10, "number": 1, "placement": "topic", "topic": label} for label in labels],
        "seeds": 1,
    }
    path = write_study(tmp_path / "small.yaml", changes)
    run_here(load_study(path), tmp_path / "out")
    found = millstream("compare", path, "--out", tmp_path / "out")
    assert found.code == 0 and "small: 5 trials" in found.out
    assert "\\x1b]0;title\\x07red" in found.out and "\\x9b31m\\nmillstream: done" in found.out
    assert max(len(line) for line in found.out.splitlines()[1:-1]) < 140
    wrong = millstream("compare", path, "--out", tmp_path / "out", "--set", "failures.0.topic=blue")
    assert wrong.code == 2 and "the data has no label 'blue'" in wrong.err
    for text in (found.out, wrong.err):
        assert not any(control in text for control in "\x1b\x07\x9b") and "\nmillstream: done" not in text


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_a_file_in_place_of_the_folder_is_refused(millstream: Millstream, tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").write_text("notes")
    found = millstream("compare", write_study(tmp_path / "small.yaml", {}), "--out", tmp_path / place)
    assert found.code == 2 and f"{tmp_path / 'taken'} is a file; name a folder for the results" in found.err
    assert (tmp_path / "taken").read_text() == "notes"


def test_a_refused_start_leaves_the_folder_to_other_data(millstream: Millstream, tmp_path: Path) -> None:
    path, out = tmp_path / "small.yaml", tmp_path / "out"
    refused = millstream("compare", write_study(path, {"data__source__topics": 1}), "--out", out)
    assert refused.code == 2 and "the data has one label" in refused.err
    run_here(load_study(write_study(path, {})), out)
    other = millstream("compare", write_study(path, {"data__source__topics": 3}), "--out", out)
    assert other.code == 3 and "over other data" in other.err

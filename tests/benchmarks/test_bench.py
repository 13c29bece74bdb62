"""`make bench` at small sizes: the figures come out, and nothing else is claimed of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.command import MEASUREMENTS
from benchmarks.figures import AtLeast, AtMost, Figure, Measurement
from benchmarks.texts import Corpus

RUN = Path(__file__).with_name("run.py")


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False)


def measured(out: Path, *names: str, peers: bool = False) -> dict[str, dict[str, object]]:
    ran = bench("--quick", "--out", out, *(["--peers"] if peers else []), "--only", *names)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = {figure["name"]: figure for figure in json.loads(out.read_text())}
    assert all(figure.keys() == {"name", "value", "unit", "goal", "met"} for figure in figures.values())
    assert all(None not in figure.values() for figure in figures.values())
    assert all(name in ran.stdout for name in figures)
    return figures


def test_the_list_names_every_figure_once() -> None:
    listed = bench("--list").stdout
    names = [name for measurement in MEASUREMENTS for name in measurement.figures]
    assert len(set(names)) == len(names)
    assert all(name in listed for name in names)


def test_a_figure_that_does_not_exist_is_a_wrong_command() -> None:
    ran = bench("--only", "spark_vs_lop")
    assert ran.returncode == 2
    assert "no figure is called spark_vs_lop" in ran.stderr


def test_the_epoch_log_is_measured(tmp_path: Path) -> None:
    figures = measured(tmp_path / "bench.json", "epoch_log_cost", "epoch_log_start")
    assert figures["epoch_log_cost"]["goal"] == "<= 1"
    assert set(figures) == {"epoch_log_cost", "epoch_log_start"}


def test_what_needs_other_packages_is_told_and_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    ran = bench("--quick", "--out", tmp_path / "bench.json", "--only", "local_vs_bytewax", "epoch_log_cost")
    assert ran.returncode == 0, ran.stderr
    assert "not measured: local_vs_bytewax: needs other packages; PEERS=1 installs them" in ran.stdout
    assert [figure["name"] for figure in json.loads((tmp_path / "bench.json").read_text())] == ["epoch_log_cost"]


def test_with_documents_of_ones_own_only_what_is_about_texts_is_measured(tmp_path: Path) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text('{"text": "a goal", "label": "sport"}\n{"text": "a train"}\n{"text": "x", "label": "other"}\n')
    listed = bench("--list", "--documents", documents).stdout
    assert "accuracy_naive_bayes_shuffled" in listed
    assert "epoch_log_cost" not in listed
    assert Corpus(documents, ["other"], 0).texts.table.to_pylist() == [{"text": "a goal", "label": "sport"}]
    assert bench("--documents", tmp_path / "none.parquet").returncode == 2


@pytest.mark.soak
@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=lambda measurement: measurement.name)
def test_everything_can_be_measured(tmp_path: Path, measurement: Measurement) -> None:
    figures = measured(tmp_path / "bench.json", measurement.name, peers=measurement.peers)
    assert set(figures) == set(measurement.figures)


def test_goals_are_met_at_their_edge() -> None:
    assert Figure("a", 0.7, "x", AtLeast(0.7)).met
    assert not Figure("a", 0.69, "x", AtLeast(0.7)).met
    assert Figure("a", 13.0, "s", AtMost(13)).met
    assert not Figure("a", 13.1, "s", AtMost(13)).met

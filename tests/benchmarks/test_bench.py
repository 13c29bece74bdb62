"""The command behind `make bench`, at small sizes: figures have values, and nothing is claimed of the values."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures.registry import figures, measurements
from benchmarks.kit.measurement import Measurement
from benchmarks.kit.texts import Corpus

RUN = Path(__file__).parents[2] / "benchmarks" / "run.py"
HISTORY = RUN.with_name("history.jsonl")


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False)


def measured(out: Path, *names: str, peers: bool = False) -> dict[str, dict[str, object]]:
    before = HISTORY.read_text()
    ran = bench("--quick", "--out", out, *(["--peers"] if peers else []), "--only", *names)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = {figure["name"]: figure for figure in json.loads(out.read_text())}
    assert all(figure.keys() == {"name", "value", "unit", "goal", "met"} for figure in found.values())
    assert all(None not in figure.values() for figure in found.values())
    assert all(name in ran.stdout for name in found)
    assert HISTORY.read_text() == before
    return found


def test_the_list_has_every_figure_once() -> None:
    listed = bench("--list").stdout
    names = [figure.name for measurement in measurements() for figure in measurement.figures]
    assert len(set(names)) == len(names) == len(figures())
    assert all(f"\n{name}: " in listed for name in names)


def test_an_unknown_figure_is_a_wrong_command() -> None:
    ran = bench("--only", "spark_vs_lop")
    assert ran.returncode == 2
    assert "no figure is called spark_vs_lop" in ran.stderr


def test_the_epoch_log_is_measured(tmp_path: Path) -> None:
    found = measured(tmp_path / "bench.json", "epoch_log_cost", "epoch_log_start")
    assert found["epoch_log_cost"]["goal"] == "<= 1"
    assert set(found) == {"epoch_log_cost", "epoch_log_start", "epoch_log_status", "epoch_log_keep"}


def test_figures_beside_other_tools_need_the_option_peers(tmp_path: Path) -> None:
    ran = bench("--quick", "--out", tmp_path / "bench.json", "--only", "local_vs_bytewax", "epoch_log_cost")
    assert ran.returncode == 0, ran.stderr
    assert "not measured: local_vs_bytewax: needs other packages; PEERS=1 installs them" in ran.stdout
    assert [figure["name"] for figure in json.loads((tmp_path / "bench.json").read_text())] == ["epoch_log_cost"]


def test_documents_of_the_user_are_for_the_figures_about_texts_alone(tmp_path: Path) -> None:
    documents = tmp_path / "documents.jsonl"
    documents.write_text('{"text": "a goal", "label": "sport"}\n{"text": "a train"}\n{"text": "x", "label": "other"}\n')
    listed = bench("--list", "--documents", documents).stdout
    assert "accuracy_naive_bayes_shuffled" in listed
    assert "epoch_log_cost" not in listed
    assert Corpus(documents, ["other"], 0).texts.table.to_pylist() == [{"text": "a goal", "label": "sport"}]
    assert bench("--documents", tmp_path / "none.parquet").returncode == 2


@pytest.mark.soak
@pytest.mark.parametrize("measurement", measurements(), ids=lambda measurement: measurement.name)
def test_everything_can_be_measured(tmp_path: Path, measurement: Measurement) -> None:
    found = measured(tmp_path / "bench.json", measurement.name, peers=measurement.peers)
    assert set(found) == {figure.name for figure in measurement.figures}

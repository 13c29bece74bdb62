"""The notebooks run at quick size, keep outputs of their own cells, and say what is known of an unfinished run."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.docs_pages import ROOT

import millstream as ms

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
ON_SPARK = {"02_published_results", "03_trained_online"}
KEPT = pytest.mark.parametrize("name", NOTEBOOKS)

Cell = dict[str, Any]


def cells(path: Path) -> list[Cell]:
    """The cells of a notebook, each with its source as one text."""
    found = json.loads(path.read_text())["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in found]


def code(path: Path) -> list[Cell]:
    return [cell for cell in cells(path) if cell["cell_type"] == "code"]


def shows_plot(cell: Cell) -> bool:
    return any("image/png" in output.get("data", ()) for output in cell.get("outputs", ()))


def printed(path: Path) -> str:
    """Everything that the cells show as text."""
    outputs = [output for cell in code(path) for output in cell["outputs"]]
    return "\n".join("".join(output.get("text") or output["data"].get("text/plain", "")) for output in outputs)


def run(name: str, folder: Path, **parameters: str) -> subprocess.CompletedProcess[str]:
    """Run a notebook in a folder, with parameters in YAML."""
    sets = [word for key, value in parameters.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, str(ROOT / "scripts/notebooks.py"), name, "--out", str(folder), *sets]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def choice(impossible: str = "", **values: Any) -> str:
    """The output of the cell of notebook 04 that chooses, with these values and without errors of shares.

    `impossible` is the reason why exactly_once is.
    """
    [decides] = [cell for cell in code(NOTEBOOKS["04_choose_for_your_stream"]) if "def objections" in cell["source"]]
    stream = {"name": "demo", "source": {"type": "generator", "records": 2000}, "pipeline": {"use": "text_topics"}}
    found = ms.advise({**stream, "engine": {"type": values["ENGINE"]}})
    once, *others = found.guarantees
    found = replace(found, guarantees=(replace(once, impossible=impossible), *others))
    with redirect_stdout(io.StringIO()) as text:
        exec(decides["source"], {"found": found, "hour": lambda _: 0.0, "MOST_ERROR": 0.5, **values})  # noqa: S102
    return text.getvalue()


def test_the_notebooks_are_there() -> None:
    assert [*NOTEBOOKS] == [
        "01_what_a_guarantee_means",
        "02_published_results",
        "03_trained_online",
        "04_choose_for_your_stream",
        "05_your_run",
    ]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.spark if name in ON_SPARK else pytest.mark.long) for name in NOTEBOOKS],
)
def test_a_notebook_runs_at_quick_size_and_its_claim_holds(name: str, tmp_path: Path) -> None:
    ran = run(name, tmp_path, QUICK="true")
    assert ran.returncode == 0, ran.stderr
    found = code(tmp_path / f"{name}.ipynb")
    assert any(map(shows_plot, found)) and "assert " in found[-1]["source"]
    assert [cell["source"] for cell in found] == [cell["source"] for cell in code(NOTEBOOKS[name])]


@KEPT
def test_kept_outputs_are_those_of_the_cells_at_full_size(name: str) -> None:
    """`make notebook-outputs` makes them again."""
    found = code(NOTEBOOKS[name])
    sources = hashlib.sha256(json.dumps([cell["source"] for cell in found]).encode()).hexdigest()
    assert json.loads(NOTEBOOKS[name].read_text())["metadata"]["millstream"] == {"sources": sources}
    assert [cell["execution_count"] for cell in found] == [*range(1, len(found) + 1)]
    assert {output["output_type"] for cell in found for output in cell["outputs"]} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    [parameters] = [cell for cell in found if "parameters" in cell["metadata"].get("tags", ())]
    assert parameters["source"].startswith("QUICK = False\n")
    assert "`make notebook-outputs`" in cells(NOTEBOOKS[name])[0]["source"]


@KEPT
def test_kept_files_have_no_trace_of_a_machine(name: str) -> None:
    content = json.loads(NOTEBOOKS[name].read_text())
    assert content["metadata"].keys() == {"kernelspec", "millstream"}
    assert {key for cell in content["cells"] for key in cell["metadata"]} <= {"tags"}
    assert not re.search(r"""["' ](/\w+){2}|[A-Z]:\\|site-packages""", printed(NOTEBOOKS[name]))
    assert all(output.get("name") != "stderr" for cell in code(NOTEBOOKS[name]) for output in cell["outputs"])


@KEPT
def test_a_sentence_under_every_plot_says_what_to_see(name: str) -> None:
    found = cells(NOTEBOOKS[name])
    for cell, below in itertools.pairwise(found):
        assert not shows_plot(cell) or below["source"].startswith("See: "), cell["source"]


@pytest.mark.long
def test_an_unfinished_run_is_not_audited(tmp_path: Path) -> None:
    config = {"engine.type": "local", "source.records": 2000, "engine.epoch.max_records": 200}
    sets = [word for key, value in config.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "millstream", "run", str(ROOT / "configs/demo.yaml"), *sets]
    died = subprocess.run([*command, "--run", tmp_path / "unfinished", "--crash", "deliver@4"], check=False)
    assert died.returncode == -9
    ran = run("05", tmp_path, RUN="../unfinished")
    assert ran.returncode == 0, ran.stderr
    text = printed(tmp_path / "05_your_run.ipynb")
    assert "interrupted, that is, UNFINISHED" in text
    assert re.search(r"NOT AUDITED: .*unfinished was interrupted after 5 epochs, of which 4 are committed;", text)
    assert re.search(r"rows in predictions +1000\n", text)
    assert "The next start loads the newest checkpoint" in text and "trained twice, " not in text


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    ran = run("05", tmp_path, RUN="../nowhere")
    assert ran.returncode == 1 and "nowhere is not a run directory" in ran.stderr
    assert not (tmp_path / "05_your_run.ipynb").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("09",), "there is no notebook '09'; there are 01_what_a_guarantee_means, 02_"),
        (
            ("03", "--out", "tried", "--set", "FOO=1"),
            "03_trained_online has no parameter 'FOO'; it has QUICK, SOURCE",
        ),
        (("03", "--out", "tried", "--set", "QUICK"), "'QUICK' is not NAME=VALUE; write --set QUICK=true"),
        (("03", "--out", "tried", "--set", "QUICK=[true"), "the value of QUICK is not YAML: while parsing a flow"),
    ],
)
def test_an_unknown_notebook_or_parameter_is_refused(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    command = [sys.executable, str(ROOT / "scripts/notebooks.py"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 2 and message in ran.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_guarantee_whose_latency_is_not_measured_is_not_chosen(engine: str) -> None:
    bears: dict[str, Any] = {"ENGINE": engine, "ROWS_MAY_REPEAT": True, "ROWS_MAY_BE_MISSING": True}
    assert "Take exactly_once: " in choice(**bears, MOST_LATENCY_MS=200)
    found = choice(**bears, MOST_LATENCY_MS=1)
    assert f"at_most_once: its latency on {engine} is not measured\n" in found
    assert "Take" not in found and "No guarantee is shown to suit: measure the latency of " in found


def test_an_impossible_guarantee_is_not_chosen() -> None:
    bears_nothing: dict[str, Any] = {"ENGINE": "local", "ROWS_MAY_REPEAT": False, "ROWS_MAY_BE_MISSING": False}
    possible = choice(**bears_nothing, MOST_LATENCY_MS=1)
    assert "No guarantee suits: take exactly_once on the local engine" in possible
    found = choice("step 'map' is not deterministic", **bears_nothing, MOST_LATENCY_MS=200)
    assert "exactly_once: it is impossible: step 'map' is not deterministic\n" in found
    assert "take exactly_once" not in found.lower() and "change what makes exactly_once impossible" in found


@pytest.mark.parametrize(
    ("labels", "counted"),
    [("xyx", "records with a label: 3, different labels: 2"), ("x" * 1500, "label: 1,500, different labels: 1")],
)
def test_a_file_that_is_too_small_to_choose_by_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: str, counted: str
) -> None:
    (tmp_path / "small.jsonl").write_text("".join(f'{{"text": "a", "label": "{label}"}}\n' for label in labels))
    monkeypatch.chdir(tmp_path)
    parameters, start, first, *_ = [cell["source"] for cell in code(NOTEBOOKS["04_choose_for_your_stream"])]
    own = {"QUICK": True, "FILE": str(tmp_path / "small.jsonl"), "FIELDS": {"text": "text", "label": "label"}}
    values: dict[str, Any] = {}
    exec(parameters, values)  # noqa: S102
    values |= own
    exec(start.replace("../runs", "runs"), values)  # noqa: S102
    with pytest.raises(ValueError, match=counted):
        exec(first, values)  # noqa: S102

"""`millstream backfill` and `millstream train`: their refusals before Spark starts, and the lines about a result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support.histories import HereSession

from millstream.cli import main
from millstream.cli.candidate_table import candidate_lines
from millstream.config.load import load_config
from millstream.history.train import Trained, train

_CLASSIFY = {"type": "classify", "model": {"type": "naive_bayes", "features": {}}}


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *words: str, steps: object = None) -> tuple[object, str]:
    """The exit code and the message of a command over a config with these steps."""
    config = {
        "name": "history",
        "source": {"type": "generator", "records": 50},
        "pipeline": {"steps": steps or [_CLASSIFY]},
        "engine": {"type": "local"},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(config))
    return exit_code([words[0], str(folder / "pipeline.yaml"), *words[1:]]), capsys.readouterr().err


def exit_code(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


@pytest.mark.parametrize("command", ["backfill", "train"])
def test_a_folder_is_required(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, message = refused(tmp_path, capsys, command)
    assert code == 2 and "Missing option '--out'" in message


@pytest.mark.parametrize(
    ("words", "steps", "code", "message"),
    [
        (["--from", "news"], None, 2, r"--from 'news' is neither an epoch, as in 12, nor a position"),
        (["--step", "bayes"], None, 2, r"no step 'bayes' classifies; one of classify"),
        (["--replay", "none"], None, 1, r"none is not a run directory"),
        (
            [],
            [{"type": "popularity", "of": "label", "window": {"type": "tumbling", "size": "1h"}}],
            2,
            r"no step of the pipeline classifies; its steps are popularity",
        ),
        (
            [],
            [{"type": "dedupe", "by": "text", "within": "1h"}, _CLASSIFY],
            3,
            r"holds pipeline.yaml, which is not of a",
        ),
    ],
)
def test_refusals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], steps: object, code: int, message: str
) -> None:
    found = refused(tmp_path, capsys, "backfill", "--out", str(tmp_path), *words, steps=steps)
    assert found[0] == code and re.search(message, found[1])
    assert [file.name for file in tmp_path.iterdir()] == ["pipeline.yaml"]


def test_an_unknown_way_to_train_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = refused(tmp_path, capsys, "train", "--out", str(tmp_path / "out"), "--how", "guessed")
    assert code == 2 and "'guessed' is not one of 'sequential', 'averaged'" in message


def test_a_model_that_cannot_be_registered_is_not_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "--out", str(tmp_path / "out"), "--register")
    code, message = refused(tmp_path, capsys, *words, "my model")
    assert code == 2 and "a model has a name of letters" in message
    steps = [{"type": "dedupe", "by": "text", "within": "1h"}, _CLASSIFY]
    code, message = refused(tmp_path, capsys, *words, "news", steps=steps)
    assert code == 1 and "the step 'dedupe' before the model 'classify' has state" in message
    assert not (tmp_path / "out").exists()


def test_a_model_with_options_from_the_environment_is_not_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND", "naive_bayes")
    steps = [{"type": "classify", "model": {"type": "${KIND}", "features": {}}}]
    code, message = refused(tmp_path, capsys, "train", "--out", str(tmp_path / "out"), steps=steps)
    assert code == 1 and "the step 'classify' has values from the environment" in message
    assert not (tmp_path / "out").exists()


def test_a_training_without_labels_says_so_and_is_not_registered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.jsonl").write_text('{"text": "goal"}\n' * 20)
    source = {"type": "files", "path": "texts.jsonl"}
    config = {"name": "unlabelled", "source": source, "pipeline": {"steps": [_CLASSIFY]}}
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(config))
    train(load_config(tmp_path / "pipeline.yaml"), tmp_path / "out", sessions=HereSession)
    code = exit_code(["train", str(tmp_path / "pipeline.yaml"), "--out", str(tmp_path / "out"), "--register", "news"])
    shown = capsys.readouterr()
    assert code == 1 and "the model has learned no label, so it is not registered" in shown.err
    assert "classify trained on 20 records\n  no record has a label, so the model has learned nothing" in shown.out


def test_a_search_without_candidates_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "--out", str(tmp_path / "out"), "--how", "search")
    code, message = refused(tmp_path, capsys, *words)
    assert code == 2 and "has no `search`, which names the values to try; for example `search: {over: {" in message
    code, message = refused(tmp_path, capsys, *words, "--set", "search={over: {model.alpha: [0.1, -1]}}")
    assert code == 2 and "search.over.model.alpha: candidate 2 (model.alpha=-1): -1 is not allowed" in message
    assert not (tmp_path / "out").exists()


def test_the_candidates_of_a_search_are_a_table_with_the_best_first() -> None:
    best = {"place": 1, "accuracy": 0.9424, "held_out": 0.9398, "rung": 2, "records": 45_000, "error": None}
    failed = {"place": 2, "accuracy": None, "held_out": None, "rung": 1, "records": 5000, "error": "it failed\nhere"}
    rows = [{**best, "values": {"model.alpha": 1.0, "model.type": "sgd"}}, {**failed, "values": {"model.alpha": None}}]
    result = {"candidates": rows, "model": {"type": "sgd", "alpha": 1.0}}
    assert list(candidate_lines(Trained(Path("h"), result, was_there=False))) == [
        "  place  accuracy  held out  rung  records  candidate",
        "      1     94.24     93.98     2   45,000  model.alpha=1.0, model.type=sgd",
        "      2    failed    failed     1    5,000  model.alpha=null: it failed\\nhere",
        '  the best model: {"type": "sgd", "alpha": 1.0}',
        "  plot: h/search.png",
    ]

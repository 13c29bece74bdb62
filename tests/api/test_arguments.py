"""The arguments of the Python API: a wrong one is refused with one sentence, before anything is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from support.studies import write_study

import millstream as ms
from millstream.cli import main


def containing_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["inside"] = value
    return value


NUMBER = "is not allowed; give a whole number of at least 1"
ABOVE = "is not allowed; give a number above 0"
FLAG = "is not allowed; give True or False"
PATH = "is not allowed; give a path, as text or as a pathlib.Path"
SET = "is not allowed; give a mapping of key paths to values"
WRONG: list[tuple[str, Any, str]] = [
    ("records", 1.5, f"records: 1.5 {NUMBER}"),
    ("records", 2.0, f"records: 2.0 {NUMBER}"),
    ("records", True, f"records: True {NUMBER}"),
    ("records", "10", f"records: '10' {NUMBER}"),
    ("records", -1, f"records: -1 {NUMBER}"),
    ("follow", "no", "follow: 'no' is not allowed; give True, False or None"),
    ("follow", np.array([True]), "follow: an object of the class ndarray is not allowed; give True, False or None"),
    ("fresh", np.array([True]), f"fresh: an object of the class ndarray {FLAG}"),
    ("fresh", "no", f"fresh: 'no' {FLAG}"),
    ("fresh", None, f"fresh: None {FLAG}"),
    ("progress", 1, f"progress: 1 {FLAG}"),
    ("run", 5, f"run: 5 {PATH}"),
    ("run", "", f"run: '' {PATH}"),
    ("run", "a\0b", f"run: 'a\\x00b' {PATH}"),
    ("run", "\ud800", f"run: '\\ud800' {PATH}"),
    ("run", b"runs/news", f"run: an object of the class bytes {PATH}"),
    ("replay", 5, f"replay: 5 {PATH}"),
    ("replay", "nowhere", "nowhere is not a run directory"),
    ("crash", 3, "crash: 3 is not allowed; give a text, as in 'deliver@3'"),
    ("crash", "deliver", "`crash` deliver: expected POINT[.PART]@EPOCH"),
    ("crash", "deliver.topic@3", "`crash` deliver.topic@3: there is no sink 'topic'"),
    ("set", ["a=b"], f"set: an object of the class list {SET}"),
    ("set", "a=b", f"set: 'a=b' {SET}"),
    ("set", {1: 2}, "set, a key path: 1 is not allowed; give a text, as in 'engine.type'"),
    ("set", {"keep": containing_itself()}, "a mapping or a list of the config contains itself"),
    (
        "set",
        {"keep": object()},
        "the value of 'keep' is no text, number, list or mapping: an object of the class object",
    ),
    ("set", {"keep": float("nan")}, "the value of 'keep' is no text, number, list or mapping: Out of range"),
    ("set", {"keep": "soon"}, 'news.yaml (set) keep: "soon" is not allowed'),
    ("overlays", 5, "overlays: 5 is not allowed; give a path or a list of paths"),
    ("overlays", {"a.yaml": 1}, "overlays: an object of the class dict is not allowed; give a path or a list of paths"),
    ("overlays", [5], f"overlays[0]: 5 {PATH}"),
    ("overlays", "new.yaml", "new.yaml: no such file; did you mean `news.yaml`?"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG, ids=lambda each: f"{each!r:.30}")
def test_a_wrong_argument_of_a_run_is_refused_before_anything_is_written(
    folder: Path, name: str, value: Any, message: str
) -> None:
    for call in (ms.run, lambda *given, **named: ms.start(*given, **named).wait()):
        with pytest.raises(ms.MillstreamError) as refused:
            call("news.yaml", **{name: value})
        assert message in str(refused.value) and "\n" not in str(refused.value)
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(("name", "value", "message"), WRONG, ids=lambda each: f"{each!r:.30}")
def test_a_wrong_argument_leaves_a_run_as_it_is(folder: Path, name: str, value: Any, message: str) -> None:
    before = ms.run("news.yaml", records=24).path
    content = {path: path.read_bytes() for path in before.rglob("*") if path.is_file()}
    with pytest.raises(ms.MillstreamError):
        ms.run("news.yaml", **{"fresh": True, name: value})
    assert [path.name for path in (folder / "runs").iterdir()] == ["news"]
    assert {path: path.read_bytes() for path in before.rglob("*") if path.is_file()} == content


def test_arguments_that_exclude_each_other_are_refused(folder: Path) -> None:
    for more in ({"records": 5}, {"follow": True}):
        with pytest.raises(ms.ConfigError, match=r"^`replay` ends after .*; leave out `follow` and `records`$"):
            ms.start("news.yaml", replay="runs/other", **more)
    assert not (folder / "runs").exists()


def test_a_number_of_numpy_and_a_single_overlay_are_taken(folder: Path) -> None:
    (folder / "quick.yaml").write_text("engine: {epoch: {max_records: 8}}\n")
    changes = {
        "guarantee.checkpoint_every": np.int64(2),
        "pipeline.popularity.threshold": np.float32(0.25),
        "mlflow": np.False_,
    }
    ms.run("news.yaml")
    run = ms.run("news.yaml", records=np.int64(24), set=changes, overlays="quick.yaml", fresh=np.True_)  # type: ignore[arg-type]
    assert run.summary is not None and (run.summary.records, run.summary.epochs) == (24, 3)
    assert run.config.resolved()["guarantee"]["checkpoint_every"] == 2
    assert run.config.resolved()["pipeline"]["popularity"]["threshold"] == 0.25
    assert ms.validate("news.yaml", overlays=folder / "quick.yaml") == []


@pytest.mark.parametrize("call", [ms.run, ms.start, ms.validate, ms.explain, ms.advise])
def test_a_config_of_a_wrong_kind_is_refused(folder: Path, call: Callable[[Any], object]) -> None:
    for wrong in (["news.yaml"], None, 7, b"news.yaml", ms.Config):
        with pytest.raises(ms.ConfigError, match=r"^config: .* give the path of a file, a mapping or a Config$"):
            call(wrong)
    text = yaml.safe_dump(yaml.safe_load((folder / "news.yaml").read_text()))
    for wrong_text in (text, "{name: news}", "name: news", text * 100):
        with pytest.raises(
            ms.ConfigError, match=r"^config: the text is YAML, .* Config\.from_file.* Config\.from_dict"
        ):
            call(wrong_text)
    assert not (folder / "runs").exists()


def test_a_path_that_looks_like_yaml_is_read(folder: Path) -> None:
    (folder / "news.yaml").rename(folder / "name: news.yaml")
    assert ms.validate("name: news.yaml") == []


def test_a_config_that_contains_itself_is_refused(folder: Path, config: dict[str, Any]) -> None:
    config["sinks"] = config
    for call in (ms.run, ms.explain, ms.Config.from_dict):
        with pytest.raises(ms.ConfigError, match="contains itself"):
            call(config)


WRONG_CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: ms.Config.from_file({}), f"path: an object of the class dict {PATH}"),  # type: ignore[arg-type]
    (lambda: ms.Config.from_file("news.yaml", overlays=5), "overlays: 5 is not allowed"),  # type: ignore[arg-type]
    (lambda: ms.Config.from_file("news.yaml", set=["a=b"]), SET),  # type: ignore[arg-type]
    (lambda: ms.Config.from_dict("news.yaml"), "values: 'news.yaml' is not allowed"),  # type: ignore[arg-type]
    (lambda: ms.Config.from_dict({}, folder=3), f"folder: 3 {PATH}"),  # type: ignore[arg-type]
    (lambda: ms.Config.from_dict({}, environment=[1]), "environment: an object of the class list is not"),  # type: ignore[arg-type]
    (lambda: ms.validate("news.yaml", set=["a=b"]), SET),  # type: ignore[arg-type]
    (lambda: ms.explain("news.yaml", overlays=[None]), f"overlays[0]: None {PATH}"),  # type: ignore[list-item]
    (lambda: ms.advise("news.yaml", overlays=5), "overlays: 5 is not allowed"),  # type: ignore[arg-type]
    (lambda: ms.advise("news.yaml", failures_per_month=0), f"failures_per_month: 0 {ABOVE}"),
    (lambda: ms.advise("news.yaml", failures_per_month=True), f"failures_per_month: True {ABOVE}"),
    (lambda: ms.advise("news.yaml", records_per_second="9"), f"records_per_second: '9' {ABOVE}"),  # type: ignore[arg-type]
    (lambda: ms.advise("news.yaml", records_per_second=float("inf")), f"records_per_second: inf {ABOVE}"),
    (lambda: ms.advise("news.yaml", records_per_second=1e300), f"records_per_second: 1e+300 {ABOVE}"),
    (lambda: ms.advise("news.yaml", failures_per_month=10**400), "failures_per_month: 1000"),
    (lambda: ms.compare(None), f"path: None {PATH}"),  # type: ignore[arg-type]
    (lambda: ms.compare(3), f"path: 3 {PATH}"),  # type: ignore[arg-type]
    (lambda: ms.compare({}), f"path: an object of the class dict {PATH}"),  # type: ignore[arg-type]
    (lambda: ms.compare("news.yaml", out=3), f"out: 3 {PATH}"),  # type: ignore[arg-type]
    (lambda: ms.compare("news.yaml", quick="no"), "quick: 'no' is not allowed; give True or False"),  # type: ignore[arg-type]
    (lambda: ms.compare("news.yaml", tasks=0), f"tasks: 0 {NUMBER}"),
    (lambda: ms.compare("news.yaml", set=["a=b"]), SET),  # type: ignore[arg-type]
    (lambda: ms.open_run(None), f"path: None {PATH}"),  # type: ignore[arg-type]
    (lambda: ms.open_run(5), f"path: 5 {PATH}"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS, ids=[message for _, message in WRONG_CALLS])
def test_a_wrong_argument_of_another_call_is_refused(folder: Path, call: Callable[[], object], message: str) -> None:
    with pytest.raises(ms.ConfigError) as refused:
        call()
    assert message in str(refused.value)


def test_a_wrong_environment_is_refused_without_its_values(folder: Path) -> None:
    with pytest.raises(ms.ConfigError) as refused:
        ms.Config.from_file("news.yaml", environment={"SECRET": b"hush"})  # type: ignore[dict-item]
    assert "environment: the name 'SECRET' or its value is no text" in str(refused.value)
    assert "hush" not in str(refused.value)


def test_arguments_of_a_run_are_checked(folder: Path) -> None:
    run = ms.run("news.yaml")
    texts = "is not allowed; give a list of texts"
    for given, message in (
        ({"texts": "a text"}, f"texts: 'a text' {texts}"),
        ({"texts": None}, f"texts: None {texts}"),
        ({"texts": {"a text": 1}}, f"texts: an object of the class dict {texts}"),
        ({"texts": ["a", 5]}, "texts[1]: 5 is not allowed; give a text of valid Unicode"),
        ({"texts": ["\ud800"]}, "texts[0]: '\\ud800' is not allowed; give a text of valid Unicode"),
        ({"texts": ["a"], "top": "3"}, f"top: '3' {NUMBER}"),
        ({"texts": ["a"], "top": 0}, f"top: 0 {NUMBER}"),
        ({"texts": ["a"], "top": True}, f"top: True {NUMBER}"),
    ):
        for predict in (run.predict, run.model().predict):
            with pytest.raises(ms.ConfigError) as refused:
                predict(**given)
            assert message in str(refused.value)
    with pytest.raises(ms.ConfigError, match="against: 3 is not allowed; give a path"):
        run.audit(against=3)  # type: ignore[arg-type]
    with pytest.raises(ms.ConfigError, match="name: an object of the class list is not allowed; give a text"):
        run.output(["topics"])  # type: ignore[arg-type]
    expected = run.predict(["harbour1", "glacier1"], top=2)
    assert run.predict(text for text in ("harbour1", "glacier1")) == run.predict(np.array(["harbour1", "glacier1"]))
    assert run.predict(("harbour1", "glacier1"), top=np.int64(2)) == expected  # type: ignore[arg-type]
    assert run.predict([]) == []


def test_messages_name_arguments_and_no_options(folder: Path) -> None:
    run = ms.run("news.yaml")
    for wrong, message in (
        ({"set": {"pipeline.model.alpha": 0.7}}, "use fresh=True to start over, or another `run`"),
        ({"run": folder / "news.yaml"}, "give another folder with `run`"),
        ({"run": folder}, "give another `run`"),
    ):
        with pytest.raises(ms.MillstreamError) as refused:
            ms.run("news.yaml", **wrong)
        assert message in str(refused.value) and "--" not in str(refused.value)
    [problem] = ms.validate("news.yaml", set={"engine.type": "flink"})
    assert problem.where == "news.yaml (set)" and isinstance(problem, ms.ConfigProblem)
    assert os.listdir(folder / "runs") == [run.path.name]


def test_messages_of_a_study_name_arguments_and_no_options(tmp_path: Path) -> None:
    path = write_study(tmp_path / "small.yaml", {})
    (tmp_path / "other").mkdir()
    (tmp_path / "other/study.json").write_text('{"format": 1, "study": "other", "data": "x"}')
    for wrong, message in (
        ({"set": {"seeds": 0}}, "small.yaml (set) seeds: "),
        ({"out": tmp_path / "other"}, "choose another `out`"),
        ({"out": "/proc/results"}, "cannot write the folder /proc/results: "),
    ):
        with pytest.raises(ms.MillstreamError) as refused:
            ms.compare(path, **wrong)
        assert message in str(refused.value) and "--" not in str(refused.value)


def test_messages_of_an_opened_run_name_arguments_and_those_of_a_command_options(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ms.run("news.yaml")
    other = ms.run("news.yaml", run="runs/other", set={"engine.epoch.max_records": 7})
    with pytest.raises(ms.Contradiction, match=r'make it with `ms\.run\(config, run=\.\.\., replay="/.*/runs/news"\)`'):
        run.audit(against=other)
    with pytest.raises(SystemExit):
        main(["audit", "runs/news", "--against", "runs/other"])
    assert "make it with `millstream run CONFIG --run DIR --replay runs/news`" in capsys.readouterr().err
    (run.path / "run.json").write_text("{")
    reads: list[Callable[[], object]] = [
        lambda: ms.open_run("runs/news"),
        lambda: run.audit(),
        lambda: ms.open_run("runs/other").audit(against="runs/news"),
    ]
    for read in reads:
        with pytest.raises(ms.MillstreamError, match=r"run\.json was altered: .*; start over with fresh=True$"):
            read()
    shutil.rmtree(other.path / "epochs")
    for gone in (other, ms.open_run("runs/other")):
        with pytest.raises(ms.MillstreamError, match=r"is gone .* or start over with fresh=True$"):
            gone.status()
    with pytest.raises(SystemExit):
        main(["status", "runs/other"])
    assert "start over with --fresh" in capsys.readouterr().err

"""`millstream config`: the resolved config, which is a config again, with the origin of every value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from support.command_result import Millstream

from millstream.config.load import load_config


@pytest.fixture
def prod(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An overlay of `news.yaml`, a secret in a file, and one in the environment."""
    (folder / "secret").write_text("hush-hush\n")
    (folder / "news.prod.yaml").write_text(
        "keep: 2d\nmlflow:\n  experiment: news\n  tracking_uri: 'https://${USER_NAME}:${file:secret}@mlflow'\n"
    )
    monkeypatch.setenv("USER_NAME", "whispering")
    return folder


def test_every_value_has_its_origin(millstream: Millstream, prod: Path) -> None:
    ran = millstream("config", "news.yaml", "--env", "prod", "--set", "engine.workers=2")
    assert (ran.code, ran.err) == (0, "")
    comments = dict(re.findall(r"^ *(\w+): .*?  # (.+)$", ran.out, re.MULTILINE))
    assert re.search(r"^name: news +# news.yaml:1$", ran.out, re.MULTILINE)
    assert comments["keep"] == "news.prod.yaml:1"
    assert comments["workers"] == "--set"
    assert comments["shards"] == "default"
    assert comments["tracking_uri"] == "news.prod.yaml:4, environment USER_NAME, file secret"
    lines = [line for line in ran.out.splitlines() if not line.rstrip().endswith(":")]
    assert all("  # " in line for line in lines)


def test_a_secret_is_not_printed(millstream: Millstream, prod: Path) -> None:
    for more in ([], ["--json"]):
        out = millstream("config", "news.yaml", "--env", "prod", *more).out
        assert "hush" not in out and "whispering" not in out
        assert "https://${USER_NAME}:${file:secret}@mlflow" in out


def test_what_is_printed_is_the_same_config(millstream: Millstream, prod: Path) -> None:
    (prod / "again.yaml").write_text(millstream("config", "news.yaml", "--env", "prod").out)
    overlay = prod / "news.prod.yaml"
    assert load_config(prod / "again.yaml").config == load_config(prod / "news.yaml", overlays=[overlay]).config


TEXTS = ["a\n", "a\nb", "\n", "\x85q", "a\u2028", "a\rb", "\x1b[31m", "\x9b", "\U0001f600\n", "a\t"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_with_a_line_break_or_a_control_character_is_printed_as_the_same_text(
    millstream: Millstream, folder: Path, text: str
) -> None:
    values = yaml.safe_load((folder / "news.yaml").read_text())
    values["mlflow"] = {"experiment": text}
    (folder / "odd.yaml").write_text(yaml.safe_dump(values))
    ran = millstream("config", "odd.yaml")
    assert ran.code == 0, ran.err
    assert yaml.safe_load(ran.out)["mlflow"]["experiment"] == text


def test_json_has_the_config_and_the_origins(millstream: Millstream, prod: Path) -> None:
    printed = json.loads(millstream("config", "news.yaml", "--env", "prod", "--set", "name=other", "--json").out)
    overlay = prod / "news.prod.yaml"
    assert printed["resolved"] == load_config("news.yaml", ["name=other"], overlays=[overlay]).resolved()
    origins = printed["origins"]
    assert origins["source.path"] == {"from": "file", "file": "news.yaml", "line": 2}
    assert origins["keep"] == {"from": "file", "file": "news.prod.yaml", "line": 1}
    assert origins["name"] == {"from": "set"}
    assert origins["guarantee.shards"] == {"from": "default"}
    assert origins["mlflow.tracking_uri"]["references"] == ["USER_NAME", "file:secret"]


def test_lists_and_a_part_of_a_default_have_origins_too(millstream: Millstream, folder: Path) -> None:
    (folder / "steps.yaml").write_text(
        "name: steps\nsource: {type: generator}\npipeline:\n  steps:\n    - {type: hashed_text, ngrams: [1, 2]}\n"
    )
    ran = millstream("config", "steps.yaml")
    assert yaml.safe_load(ran.out)["pipeline"]["steps"][0]["ngrams"] == [1, 2]
    assert re.search(r"^    - type: hashed_text +# steps.yaml:5$", ran.out, re.MULTILINE)
    assert re.search(r"^      dimensions: 65536 +# default$", ran.out, re.MULTILINE)
    assert re.search(r"^        - 2 +# steps.yaml:5$", ran.out, re.MULTILINE)
    (folder / "least.yaml").write_text("name: least\nsource: {type: generator}\npipeline: {use: text_topics}\n")
    origins = json.loads(millstream("config", "least.yaml", "--set", "pipeline.model.alpha=1", "--json").out)["origins"]
    assert origins["pipeline.model.alpha"] == {"from": "set"}
    assert origins["pipeline.model.type"] == {"from": "default"}


def test_a_wrong_config_is_refused_with_the_line_of_the_overlay(millstream: Millstream, prod: Path) -> None:
    (prod / "news.prod.yaml").write_text("\nkeep: soon\n")
    for command in ("config", "validate", "explain", "simulate", "run"):
        ran = millstream(command, "news.yaml", "--env", "prod")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith('millstream: news.prod.yaml:2 keep: "soon" is not allowed')


def test_overlays_of_with_come_after_that_of_env(millstream: Millstream, prod: Path) -> None:
    (prod / "other.yaml").write_text("keep: 3d\n")
    ran = millstream("config", "--with", "other.yaml", "news.yaml", "--env", "prod")
    assert re.search(r"^keep: 3d +# other.yaml:1$", ran.out, re.MULTILINE)


def test_an_environment_that_is_a_path_is_refused(millstream: Millstream, folder: Path) -> None:
    ran = millstream("config", "news.yaml", "--env", "../news")
    assert ran.code == 2
    assert ran.err.startswith("millstream: --env ../news: an environment has a name of letters")


def test_paths_of_set_start_at_the_config_and_runs_at_the_current_folder(
    millstream: Millstream, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    (folder / "news.jsonl").rename(folder / "other.jsonl")
    ran = millstream("run", "../news.yaml", "--set", "source.path=other.jsonl", "--until-idle", "--json")
    assert ran.code == 0, ran.err
    assert (folder / "elsewhere/runs/news/run.json").exists()


def test_a_run_stores_a_value_of_a_file_nowhere_that_it_does_not_store_one_of_the_environment(
    millstream: Millstream, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "secret").write_text("hush-hush\n")
    monkeypatch.setenv("SECRET_FOLDER", "hush-hush")
    found = {}
    for name, reference in (("file", "${file:secret}"), ("environment", "${SECRET_FOLDER}")):
        sink = f"sinks.topics={{type: files, path: '{reference}/{name}'}}"
        ran = millstream("run", "news.yaml", "--until-idle", "--run", f"runs/{name}", "--set", sink)
        assert ran.code == 0, ran.err
        run = folder / "runs" / name
        assert reference in (run / "config.yaml").read_text()
        found[name] = {
            str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and b"hush" in path.read_bytes()
        }
        assert millstream("status", run).code == 0
    assert found["file"] == found["environment"]
    assert "config.yaml" not in found["file"] and "summary.json" not in found["file"]

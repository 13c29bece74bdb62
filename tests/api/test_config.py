"""`ms.Config`, `ms.validate` and `ms.explain`: configs from files, dictionaries and objects."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import millstream as ms
from millstream.cli import main
from millstream.config.pipeline import NamedStep
from millstream.steps.classify import Classify
from millstream_connectors.files.sink import FilesSink
from millstream_connectors.files.source import FilesSource
from millstream_models.online.naive_bayes import NaiveBayes
from millstream_pipelines.text_topics import TextTopics


class Changeable(NaiveBayes):
    model_config = ConfigDict(frozen=False)


def test_a_file_a_dictionary_and_objects_make_the_same_config(folder: Path, config: dict[str, Any]) -> None:
    objects = ms.Config(
        name="news",
        source=FilesSource(path="documents"),
        pipeline=TextTopics(popularity={"window": {"type": "tumbling", "size": "10m"}}),
        engine={"type": "local", "epoch": {"max_records": 24}},
    )
    assert ms.Config.from_file("news.yaml").resolved() == ms.Config.from_dict(config).resolved() == objects.resolved()
    assert objects.name == "news" and repr(objects) == "<Config news>"


def test_steps_may_be_objects(folder: Path) -> None:
    steps = [NamedStep("topics", Classify(model=NaiveBayes(features={"dimensions": 256})))]
    config = ms.Config(
        name="a", source=FilesSource(path="documents"), pipeline={"steps": steps}, engine={"type": "local"}
    )
    assert ms.validate(config) == []
    assert ms.run(config, run="runs/steps").outputs == ("rejects", "predictions")


def test_values_are_set_by_key_path(folder: Path, config: dict[str, Any]) -> None:
    changes = {"pipeline.model.alpha": 0.5, "pipeline.model.type": "naive_bayes", "keep": None, "engine.type": "local"}
    for changed in (ms.Config.from_file("news.yaml", set=changes), ms.Config.from_dict(config, set=changes)):
        assert changed.resolved()["pipeline"]["model"]["alpha"] == 0.5
        assert changed.resolved()["keep"] is None
    assert "alpha" not in json.dumps(config)


def test_a_set_value_is_the_value_and_no_yaml(folder: Path) -> None:
    [problem] = ms.validate("news.yaml", set={"name": "null: {"})
    assert problem.key == "name" and '"null: {" is not allowed' in problem.message
    with pytest.raises(ms.ConfigError, match="the value of 'source' is no text"):
        ms.run("news.yaml", set={"source": object()})


def test_overlays_are_merged_over_a_file(folder: Path, config: dict[str, Any]) -> None:
    (folder / "quick.yaml").write_text("engine: {epoch: {max_records: 96}}\nguarantee: {delivery: at_least_once}\n")
    for made in (
        ms.Config.from_file("news.yaml", overlays=["quick.yaml"]),
        ms.run("news.yaml", overlays=["quick.yaml"]).config,
    ):
        assert made.resolved()["engine"]["epoch"]["max_records"] == 96
        assert made.resolved()["guarantee"]["delivery"] == "at_least_once"
    assert ms.explain("news.yaml", overlays=["quick.yaml"]).content["guarantee"]["delivery"] == "at_least_once"
    (folder / "quick.yaml").write_text("engine: {type: flink}\n")
    [problem] = ms.validate("news.yaml", overlays=["quick.yaml"])
    assert (problem.where, problem.key) == ("quick.yaml:1", "engine.type")
    with pytest.raises(ms.ConfigError, match="overlays are merged over the file of a config"):
        ms.run(config, overlays=["quick.yaml"])


def test_paths_start_at_the_folder_of_the_config(folder: Path, config: dict[str, Any]) -> None:
    (folder / "elsewhere").mkdir()
    os.chdir(folder / "elsewhere")
    assert ms.validate(ms.Config.from_dict(config, folder=folder)) == []
    assert ms.validate("../news.yaml") == []
    [problem] = ms.validate(config)
    assert problem.key == "source.path"


def test_the_environment_may_be_given_and_is_not_shown(folder: Path, config: dict[str, Any]) -> None:
    config["source"]["path"] = "${DOCUMENTS}"
    made = ms.Config.from_dict(config, environment={"DOCUMENTS": "documents"})
    assert made.resolved()["source"]["path"] == "${DOCUMENTS}"
    assert ms.run(made, set={"engine.epoch.max_records": 50}).config.resolved()["source"]["path"] == "${DOCUMENTS}"
    with pytest.raises(ms.ConfigError, match="the environment has no DOCUMENTS"):
        ms.run(config)


def test_a_config_does_not_change_with_what_it_was_made_of(folder: Path, config: dict[str, Any]) -> None:
    model = Changeable()
    made = ms.Config.from_dict(config)
    of_objects = ms.Config(
        name="a", source=config["source"], pipeline=TextTopics(model=model), engine={"type": "local"}
    )
    before = of_objects.resolved()
    config["engine"]["type"] = config["source"]["path"] = "changed"
    model.alpha = 7.0
    made.resolved()["engine"]["type"] = "changed"
    (folder / "news.yaml").write_text("name: [")
    assert ms.run(made).summary.records == 192  # type: ignore[union-attr]
    assert of_objects.resolved() == before
    with pytest.raises(AttributeError, match="a Config does not change"):
        made.name = "other"  # type: ignore[misc]


def test_every_problem_has_its_file_its_line_and_its_key(folder: Path) -> None:
    (folder / "news.yaml").write_text(
        "name: news\nsource: {type: fils, path: x}\npipeline: {use: text_topics, modle: 1}\n"
    )
    found = ms.validate("news.yaml")
    assert [(problem.where, problem.key) for problem in found] == [
        ("news.yaml:2", "source.type"),
        ("news.yaml:3", "pipeline.modle"),
    ]
    with pytest.raises(ms.ConfigError) as refused:
        ms.Config.from_file("news.yaml")
    assert str(refused.value) == "news.yaml: 2 problems\n" + "\n".join(map(str, found))
    assert list(refused.value.problems) == found


def test_problems_without_a_place_are_reported_too(folder: Path) -> None:
    [problem] = ms.validate("new.yaml")
    assert str(problem) == "new.yaml: no such file; did you mean `news.yaml`?"


def test_a_graph_that_cannot_be_built_is_a_problem(folder: Path) -> None:
    [problem] = ms.validate("news.yaml", set={"pipeline.label": "topic"})
    assert problem.key.startswith("pipeline") and "topic" in problem.message


def test_an_explanation_is_that_of_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"guarantee.delivery": "at_least_once", "guarantee.checkpoint_every": 4}
    found = ms.explain("news.yaml", set=changes)
    sets = [argument for key, value in changes.items() for argument in ("--set", f"{key}={value}")]
    for option, shown in (([], str(found)), (["--json"], json.dumps(found.content, indent=2))):
        with pytest.raises(SystemExit):
            main(["explain", "news.yaml", *sets, *option])
        assert capsys.readouterr().out == f"{shown}\n"


def test_a_set_value_passes_through_no_text(folder: Path) -> None:
    path = "\x85q=\u2028: #"
    assert ms.Config.from_file("news.yaml", set={"source.path": path}).resolved()["source"]["path"] == path
    with pytest.raises(ms.ConfigError, match="unknown key"):
        ms.Config.from_file("news.yaml", set={"name=x": "y"})
    with pytest.raises(ms.ConfigError, match="a key path has a key between its dots"):
        ms.Config.from_file("news.yaml", set={"source..path": "y"})


class Nothing(BaseModel):
    type: str = "nothing"
    use: str = "nothing"


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("source", {"source": NaiveBayes()}),
        ("source", {"source": FilesSink(path="rows")}),
        ("sources.a", {"source": None, "sources": {"a": TextTopics()}}),
        ("pipeline", {"pipeline": Nothing()}),
        ("pipeline", {"pipeline": Classify(model=NaiveBayes())}),
        ("pipeline.model", {"pipeline": {"use": "text_topics", "model": FilesSource(path="documents")}}),
        ("pipeline.steps.0", {"pipeline": {"steps": [FilesSource(path="documents")]}}),
        ("pipeline.steps.0", {"pipeline": {"steps": [NamedStep("a", Nothing())]}}),
        ("pipeline.steps.0", {"pipeline": {"steps": [NamedStep("a b", Classify(model=NaiveBayes()))]}}),
        ("sinks.topics", {"sinks": {"topics": FilesSource(path="documents")}}),
    ],
)
def test_an_object_of_another_kind_is_a_problem_at_its_key(
    folder: Path, config: dict[str, Any], key: str, changes: dict[str, Any]
) -> None:
    [problem] = ms.validate({**config, **changes})
    assert problem.key == key and (" is not a " in problem.message or "a step has a name" in problem.message)
    with pytest.raises(ms.ConfigError):
        ms.Config(**{**config, **changes})


def test_a_config_is_its_own_copy(folder: Path) -> None:
    made = ms.Config.from_file("news.yaml")
    assert copy.copy(made) is made and copy.deepcopy({"config": made})["config"] is made


def unpickled(pickled: bytes) -> ms.Config:
    config: ms.Config = pickle.loads(pickled)  # noqa: S301
    return config


def test_a_pickle_has_the_config_with_its_origins_and_no_value_from_outside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "documents").rename(folder / "hidden-place")
    monkeypatch.setenv("DOCUMENTS", "hidden-place")
    made = ms.Config.from_file("news.yaml", set={"source.path": "${DOCUMENTS}", "pipeline": TextTopics().model_dump()})
    pickled = pickle.dumps(made)
    (folder / "news.yaml").write_text("name: [")
    again = unpickled(pickled)
    assert again.resolved() == made.resolved() and again.origins() == made.origins()
    assert ms.validate(again) == [] and b"hidden-place" not in pickled
    monkeypatch.delenv("DOCUMENTS")
    with pytest.raises(ms.ConfigError, match="the environment has no DOCUMENTS"):
        unpickled(pickled)


def test_a_pickle_has_the_environment_that_the_config_was_given(folder: Path, config: dict[str, Any]) -> None:
    config["source"]["path"] = "${DOCUMENTS}"
    made = ms.Config.from_dict(config, environment={"DOCUMENTS": "documents"})
    assert ms.run(unpickled(pickle.dumps(made)), records=24).path.name == "news"


NOTEBOOK = """
import pickle
from millstream_models.online.naive_bayes import NaiveBayes
from millstream_pipelines.text_topics import TextTopics
import millstream as ms

class OwnModel(NaiveBayes):
    pass

config = ms.Config(name="a", source={"type": "generator"}, pipeline=TextTopics(model=OwnModel()))
try:
    pickle.dumps(config)
except ms.ConfigError as error:
    print(error)
"""


def test_a_config_with_a_class_of_a_notebook_is_not_pickled() -> None:
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, check=True)
    begin = "the config cannot be pickled: another process cannot import OwnModel, which a notebook"
    assert done.stdout.startswith(begin)


def test_every_value_has_an_origin(folder: Path, config: dict[str, Any]) -> None:
    (folder / "quick.yaml").write_text("engine: {epoch: {max_records: 96}}\n")
    made = ms.Config.from_file(
        "news.yaml",
        set={"source.path": "${DOCUMENTS}"},
        overlays="quick.yaml",
        environment={"DOCUMENTS": "documents"},
    )
    found = made.origins()
    assert str(found["source.path"]) == "set, environment DOCUMENTS"
    assert (found["engine.epoch.max_records"].file, found["engine.epoch.max_records"].line) == ("quick.yaml", 1)
    assert found["name"].file == "news.yaml" and found["keep"].kind == "default"
    assert str(ms.Config(**config).origins()["name"]) == "config"


class Model:
    """A model, and no config of one."""


@pytest.mark.parametrize("given", [Model(), Model, NaiveBayes])
def test_a_model_in_place_of_its_config_is_refused(config: dict[str, Any], given: object) -> None:
    name = given.__name__ if isinstance(given, type) else "Model"
    message = rf"the class {name} is not the config of a model: give an object of its config class, which builds the"
    steps = [{"type": "hashed_text"}, {"type": "classify", "model": given}]
    for pipeline, key in (({"use": "text_topics", "model": given}, "model"), ({"steps": steps}, "steps.1.model")):
        with pytest.raises(ms.ConfigError, match=f"^config pipeline.{key}: .*{message}"):
            ms.Config(**{**config, "pipeline": pipeline})
        [problem] = ms.validate({**config, "pipeline": pipeline})
        assert problem.key == f"pipeline.{key}"
    for make in (TextTopics, Classify):
        with pytest.raises(ms.ConfigError, match=message):
            make(model=given)

"""Overlays: they are merged over a config in their order, and their problems are reported with their own lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from millstream.config.document import parse
from millstream.config.durations import parse_duration
from millstream.config.load import Loaded, load_config, read_config
from millstream.config.overlays import environment_overlay, merge_overlays
from millstream.errors import ConfigError

NEWS = """\
name: news
source: {type: files, path: news.jsonl, fields: {text: text, label: label}}
pipeline:
  use: text_topics
  model: {type: naive_bayes, alpha: 0.5}
  popularity: {window: {type: tumbling, size: 1h, lateness: 5m}, threshold: 0.2}
sinks:
  predictions: {type: files, path: out, format: jsonl}
engine:
  type: local
  epoch: {max_records: 500}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "news.yaml"
    path.write_text(NEWS)
    return path


def overlaid(config: Path, *texts: str) -> Loaded:
    """The config with an overlay of each of these texts."""
    overlays = []
    for number, text in enumerate(texts):
        overlays.append(config.with_name(f"overlay-{number}.yaml"))
        overlays[-1].write_text(text)
    return load_config(config, overlays=overlays)


def refusal(config: Path, *texts: str) -> str:
    with pytest.raises(ConfigError) as refused:
        overlaid(config, *texts)
    return str(refused.value).replace(f"{config.parent}/", "")


def test_mappings_are_merged_key_by_key(config: Path) -> None:
    loaded = overlaid(config, "engine: {epoch: {max_wait: 1s}}\npipeline: {model: {half_life: 1000}}\n")
    resolved = loaded.resolved()
    assert resolved["engine"]["epoch"] == {"max_records": 500, "max_wait": "1s"}
    assert (resolved["pipeline"]["model"]["alpha"], resolved["pipeline"]["model"]["half_life"]) == (0.5, 1000)
    assert resolved["pipeline"]["popularity"]["threshold"] == 0.2


def test_an_overlay_is_read_back_from_a_run_directory_as_part_of_the_config(config: Path) -> None:
    loaded = overlaid(config, "engine: {epoch: {max_wait: 1s}}\n")
    kept = yaml.safe_load(yaml.safe_dump(loaded.resolved()))
    assert read_config(kept, loaded.folder, "config.yaml").config == loaded.config


def test_a_later_overlay_counts_and_set_counts_last(config: Path) -> None:
    first, second = config.with_name("first.yaml"), config.with_name("second.yaml")
    first.write_text("keep: 1d\nname: first\n")
    second.write_text("keep: 2d\n")
    loaded = load_config(config, ["name=set"], overlays=[first, second])
    assert (loaded.config.keep, loaded.config.name) == (parse_duration("2d"), "set")


@pytest.mark.parametrize(
    ("overlay", "key", "value"),
    [
        ("source: {type: generator}", "source", "generator"),
        ("pipeline: {model: {type: softmax}}", "model", "softmax"),
        ("sinks: {predictions: {type: journal, path: out}}", "predictions", "journal"),
        ("pipeline: {popularity: {window: {type: count, size: 9}}}", "window", "count"),
    ],
)
def test_another_type_replaces_the_mapping_because_the_options_do_not_fit(
    config: Path, overlay: str, key: str, value: str
) -> None:
    assert found(overlaid(config, overlay).resolved(), key)["type"] == value


def found(data: Any, key: str) -> Any:
    """The value of a key, wherever it is."""
    if key in data:
        return data[key]
    inner = [found(value, key) for value in data.values() if isinstance(value, dict)]
    return next((value for value in inner if value is not None), None)


def test_another_engine_keeps_its_options_because_all_engines_have_them(config: Path) -> None:
    engine = overlaid(config, "engine: {type: spark}\n").config.engine
    assert (engine.type, engine.epoch.max_records) == ("spark", 500)


def test_a_list_of_steps_replaces_a_named_pipeline(config: Path) -> None:
    steps = "[{type: hashed_text}, {type: classify, model: {type: sgd}}]"
    loaded = overlaid(config, f"pipeline: {{steps: {steps}}}\n")
    assert [step.name for step in loaded.config.steps] == ["hashed_text", "classify"]
    back = overlaid(config, f"pipeline: {{steps: {steps}}}\n", "pipeline: {use: text_topics}\n")
    assert [step.name for step in back.config.steps] == ["classify", "popularity"]


def test_a_registered_model_replaces_the_model_and_is_replaced_by_one(tmp_path: Path) -> None:
    registered = {"from": "models:/news@champion"}
    for below, above in (({"type": "naive_bayes", "alpha": 0.5}, registered), (registered, {"type": "softmax"})):
        config, overlay = tmp_path / "below.yaml", tmp_path / "above.yaml"
        for file, model in ((config, below), (overlay, above)):
            file.write_text(yaml.safe_dump({"pipeline": {"use": "text_topics", "model": model}}))
        document = parse(config.read_text())
        merge_overlays(document, str(config), [overlay])
        assert document.data["pipeline"]["model"] == above


def test_a_field_that_is_named_type_selects_nothing(config: Path) -> None:
    loaded = overlaid(config, "source: {fields: {type: kind}}\n")
    assert list(loaded.config.source.config.fields) == ["text", "label", "type"]


def test_a_list_is_replaced(config: Path) -> None:
    config.write_text(NEWS.replace("use: text_topics", "use: text_topics\n  features: {ngrams: [1, 1]}"))
    loaded = overlaid(config, "pipeline: {features: {ngrams: [1, 2]}}\n")
    assert loaded.resolved()["pipeline"]["features"]["ngrams"] == [1, 2]


def test_a_null_is_the_value_null_and_removes_a_sink(config: Path) -> None:
    loaded = overlaid(config, "keep: null\npipeline: {popularity: null}\nsinks: {predictions: null}\n")
    assert loaded.config.keep is None
    assert loaded.config.pipeline.popularity is None
    assert loaded.config.sinks == {}


def test_relative_paths_of_an_overlay_start_at_the_folder_of_the_config(config: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    overlay = tmp_path / "elsewhere" / "overlay.yaml"
    overlay.write_text("source: {path: other.jsonl}\n")
    loaded = load_config(config, overlays=[overlay])
    assert loaded.folder == config.parent


# ---------------------------------------------------------------- bad overlays


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ("\nengine: [local]\n", "overlay-0.yaml:2 engine: a list is not a mapping, `key: value`"),
        ("\nsource: {type: journal}\n", "overlay-0.yaml:2 source.path: required"),
        ("source: news.jsonl\n", "overlay-0.yaml:1 source: a source is a mapping with `type`, one of "),
        ("name: {first: news}\n", "overlay-0.yaml:1 name: a mapping is not text"),
        ("engine:\n  epoch: {max_records: 0}\n", "overlay-0.yaml:2 engine.epoch.max_records: 0 is not allowed"),
        ("engine:\n  epoc: {}\n", "overlay-0.yaml:2 engine.epoc: unknown key; did you mean `epoch`?"),
        ("keep: ${NOT_SET_HERE}\n", "overlay-0.yaml:1 keep: the environment has no NOT_SET_HERE"),
        ("sinks: {topics: null}\n", "overlay-0.yaml:1 sinks.topics: a sink is a mapping with `type`"),
        ("- name: news\n", "overlay-0.yaml:1: an overlay is a mapping with the keys to change"),
        ("news\n", "overlay-0.yaml:1: an overlay is a mapping with the keys to change"),
        ("", "overlay-0.yaml: the file is empty"),
        ("keep: 1d\nkeep: 2d\n", "overlay-0.yaml:2 keep: the key is given twice, first on line 1"),
        ("name: a: b\n", "overlay-0.yaml:1: not YAML, at column 8"),
    ],
)
def test_a_wrong_overlay_is_refused_with_its_own_line(config: Path, overlay: str, message: str) -> None:
    assert refusal(config, overlay).startswith(message)


def test_problems_of_config_and_overlays_are_reported_together_each_with_its_file(config: Path) -> None:
    config.write_text(NEWS.replace("threshold: 0.2", "threshold: 2"))
    message = refusal(config, "keep: soon\n", "engine: {workers: 0}\n")
    assert [line.partition(": ")[0] for line in message.splitlines()] == [
        "news.yaml",
        "news.yaml:6 pipeline.popularity.threshold",
        "overlay-0.yaml:1 keep",
        "overlay-1.yaml:1 engine.workers",
    ]


def test_the_same_overlay_twice_is_refused_by_whatever_path(config: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("keep: 1d\n")
    again = tmp_path / "link.yaml"
    again.symlink_to(overlay)
    with pytest.raises(ConfigError, match=r"link\.yaml: the overlay is given twice; leave one of the two out"):
        load_config(config, overlays=[overlay, again])
    with pytest.raises(ConfigError, match=r"news\.yaml: it is the config itself; leave it out"):
        load_config(config, overlays=[config])


def test_a_missing_overlay_is_refused_with_the_nearest_name(config: Path) -> None:
    config.with_name("prod.yaml").write_text("keep: 1d\n")
    with pytest.raises(ConfigError, match=r"prd\.yaml: no such file; did you mean `.*prod\.yaml`\?"):
        load_config(config, overlays=[config.with_name("prd.yaml")])


# ---------------------------------------------------------------- environments


def test_an_environment_is_the_overlay_beside_the_config(config: Path) -> None:
    overlay = config.with_name("news.prod.yaml")
    overlay.write_text("keep: 1d\n")
    assert environment_overlay(config, "prod") == overlay


@pytest.mark.parametrize("name", ["../prod", "a/b", "prod.yaml", "", "/etc/passwd", ".", "prod\n"])
def test_an_environment_that_is_no_name_is_refused(config: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"an environment has a name of letters.*; --with takes any file"):
        environment_overlay(config, name)


def test_a_missing_environment_is_refused_with_those_that_exist(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"news\.yaml has no overlay of that kind beside it"):
        environment_overlay(config, "prod")
    for name in ("prod", "test"):
        config.with_name(f"news.{name}.yaml").write_text("keep: 1d\n")
    config.with_name("newspaper.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"there is no .*news\.x\.yaml; there are prod, test$"):
        environment_overlay(config, "x")
    with pytest.raises(ConfigError, match=r"did you mean `prod`\?"):
        environment_overlay(config, "prd")

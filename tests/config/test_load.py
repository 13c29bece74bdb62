"""Loading a config: values of the environment, `--set`, the config in a run directory, and unusual YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from millstream.config.document import apply_sets, parse
from millstream.config.durations import parse_duration
from millstream.config.load import load_config, read_config
from millstream.errors import ConfigError

LEAST = """\
name: least
source: {type: files, path: news.jsonl}
pipeline: {use: text_topics, features: {type: hashed_text, dimensions: 1024}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "least.yaml"
    path.write_text(LEAST)
    return path


def test_a_config_needs_only_name_source_and_pipeline(config: Path) -> None:
    loaded = load_config(config)
    guarantee, engine = loaded.config.guarantee, loaded.config.engine
    assert (guarantee.delivery, guarantee.recovery, guarantee.checkpoint_every, guarantee.commit_every) == (
        "exactly_once",
        "epochs",
        1,
        1,
    )
    assert (engine.type, engine.epoch.max_records, engine.epoch.max_wait) == ("spark", 5000, parse_duration("20ms"))
    assert loaded.config.keep == parse_duration("7d")
    assert loaded.config.mlflow is False
    assert loaded.config.sinks == {}
    assert loaded.folder == config.parent


def test_on_the_local_engine_a_record_waits_only_if_the_config_sets_max_wait(config: Path) -> None:
    def max_wait(*sets: str) -> int:
        return load_config(config, list(sets)).config.engine.epoch.max_wait

    assert max_wait("engine.type=local") == max_wait("engine={type: local, epoch: {max_records: 7}}") == 0
    assert max_wait("engine.type=local", "engine.epoch.max_wait=20ms") == parse_duration("20ms")


def test_a_single_source_is_named_source_and_several_have_their_own_names(config: Path) -> None:
    [source] = load_config(config).config.logs
    assert (source.name, source.config.type) == ("source", "files")
    several = "sources={b: {type: files, path: b.jsonl}, a: {type: files, path: a.jsonl}}"
    assert [source.name for source in load_config(config, ["source=null", several]).config.logs] == ["b", "a"]


def test_every_source_has_the_options_of_event_time(config: Path) -> None:
    def times(*sets: str) -> tuple[int | None, int | None]:
        [source] = load_config(config, list(sets)).config.logs
        return source.times.idle, source.times.ahead

    generated = "source={type: generator}"
    assert times() == (parse_duration("1m"), parse_duration("1d"))
    assert times("source.idle=5s", "source.ahead=null") == (parse_duration("5s"), None)
    assert times(generated) == (parse_duration("1m"), None)  # its own default: its times are generated
    assert times("source={type: generator, ahead: 2h, idle: null}") == (None, parse_duration("2h"))
    loaded = load_config(config, ["source.idle=5s"])
    assert read_config(loaded.resolved(), loaded.folder, loaded.file).config == loaded.config


def test_problems_of_event_time_are_reported_with_those_of_the_source(config: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(config, ["source.idle=0", "source.ahead=7", "source.fields=3"])
    assert [line.partition("source.")[2].partition(":")[0] for line in str(refused.value).splitlines()[1:]] == [
        "idle",
        "ahead",
        "fields",
    ]
    with pytest.raises(ConfigError, match=r"source\.idel: unknown key; did you mean `idle`\?"):
        load_config(config, ["source.idel=5s"])


def test_a_reference_is_a_value_of_the_environment_or_its_default(config: Path) -> None:
    sets = ["name=${WHO}-${WHAT:-news}", "engine.epoch.max_records=${MOST:-7}", "source.path=a$$b", "keep=${KEEP:-}"]
    environment = {"WHO": "our", "WHAT": "", "KEEP": "1h"}
    loaded = load_config(config, sets, environment)
    assert loaded.config.name == "our-news"
    assert loaded.config.engine.epoch.max_records == 7
    assert loaded.config.source.config.path == "a$b"
    assert loaded.config.keep == parse_duration("1h")


def test_a_misspelt_variable_of_the_environment_is_refused_with_the_nearest(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"name: the environment has no TOPC; .*; did you mean `TOPIC`\?"):
        load_config(config, ["name=${TOPC}"], {"TOPIC": "news"})


def test_false_may_come_from_the_environment(config: Path) -> None:
    assert load_config(config, ["mlflow=${MLFLOW:-false}"], {}).config.mlflow is False


def test_a_resolved_config_reads_back_the_same_and_has_no_value_of_the_environment(config: Path) -> None:
    sets = ["source.path=${SECRET_FOLDER}/a$$b.jsonl", "engine.type=local", "keep=${KEEP:-1d}"]
    environment = {"SECRET_FOLDER": "hush-hush"}
    loaded = load_config(config, sets, environment)
    kept = loaded.resolved()
    assert "hush" not in yaml.safe_dump(kept)
    assert kept["source"]["path"] == "${SECRET_FOLDER}/a$$b.jsonl"
    assert kept["keep"] == "1d"
    assert kept["guarantee"]["checkpoint_every"] == 1
    again = read_config(yaml.safe_load(yaml.safe_dump(kept)), loaded.folder, "config.yaml", environment)
    assert again.config == loaded.config
    assert again.resolved() == kept


def test_a_list_of_steps_reads_back_the_same(config: Path) -> None:
    window = "window: {type: count, size: 2}"
    steps = f"[{{type: hashed_text, name: words}}, {{type: popularity, of: label, {window}}}]"
    loaded = load_config(config, [f"pipeline={{steps: {steps}}}"])
    assert [step.name for step in loaded.config.steps] == ["words", "popularity"]
    again = read_config(loaded.resolved(), loaded.folder, "config.yaml")
    assert again.config == loaded.config
    assert again.config.steps == loaded.config.steps
    assert [step.path for step in again.config.steps] == [("pipeline", "steps", 0), ("pipeline", "steps", 1)]


def test_several_sources_read_back_the_same(config: Path) -> None:
    config.write_text(
        LEAST.replace("source: {", "sources: {news: {").replace("news.jsonl}", "news.jsonl}, other: {type: generator}}")
    )
    loaded = load_config(config)
    again = read_config(loaded.resolved(), loaded.folder, "config.yaml")
    assert [source.name for source in again.config.logs] == ["news", "other"]
    assert again.config == loaded.config


@pytest.mark.parametrize(
    "sets",
    [["engine.epoch.max_records=${SECRET}"], ["source.fields=${SECRET}"], ["name=x/${SECRET}"], ["keep=${SECRET}"]],
)
def test_a_value_of_the_environment_is_not_in_a_message(config: Path, sets: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(config, sets, {"SECRET": "hush/hush"})
    assert "hush" not in str(refused.value)
    assert "${SECRET}" in str(refused.value)


def test_a_part_with_a_secret_in_it_is_not_in_a_message(config: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(config, ["name={password: '${SECRET}'}"], {"SECRET": "hush"})
    assert "hush" not in str(refused.value)
    assert "(--set) name: a mapping is not text" in str(refused.value)


def test_a_dollar_without_a_name_stays(config: Path) -> None:
    assert load_config(config, ["source.path=$5.jsonl"], {}).config.source.config.path == "$5.jsonl"


def test_merges_and_aliases_are_read() -> None:
    document = parse("a: &one {x: 1, y: 2}\nb:\n  <<: *one\n  y: 3\nc: *one\n")
    assert document.problems == []
    assert document.data == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-03-01", "2026-03-01"),
        ("1:30", "1:30"),
        ("on", "on"),
        ("no", "no"),
        ("1e3", 1000.0),
        ("010", "010"),
        ("-3", -3),
        ("~", None),
        ("", None),
        ("TRUE", True),
        (".5", 0.5),
    ],
)
def test_plain_values_follow_yaml_1_2(text: str, value: Any) -> None:
    read = parse(f"a: {text}").data["a"]
    assert read == value
    assert type(read) is type(value)


def test_a_file_of_nested_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    [problem] = parse("\n".join(lines)).problems
    assert problem.message == "more than 100,000 values, which is too large for a config"


def test_a_file_that_is_nested_too_deeply_is_refused() -> None:
    [problem] = parse("[" * 5000 + "]" * 5000).problems
    assert "nested too deeply" in problem.message


def test_a_byte_order_mark_is_ignored(config: Path) -> None:
    config.write_bytes(b"\xef\xbb\xbf" + LEAST.encode())
    assert load_config(config).config.name == "least"


def test_set_replaces_a_whole_part() -> None:
    document = parse("sinks: {a: {type: x, path: y}}")
    apply_sets(document, ["sinks.a={type: z}"])
    assert document.data == {"sinks": {"a": {"type": "z"}}}
    assert document.where(("sinks", "a", "type")) == "--set"
    assert document.where(("sinks",)) == 1


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("source.records", "a whole number"),
        ("source.seed", "a whole number"),
        ("engine.workers", "a whole number"),
        ("engine.epoch.max_records", "a whole number"),
        ("guarantee.checkpoint_every", "a whole number"),
        ("pipeline.popularity.threshold", "a number"),
        ("pipeline.model.alpha", "a number"),
        ("pipeline.features.dimensions", "a whole number"),
    ],
)
def test_true_and_false_are_no_numbers(key: str, kind: str) -> None:
    config = {
        "name": "news",
        "source": {"type": "generator"},
        "pipeline": {"use": "text_topics"},
        "sinks": {"predictions": {"type": "files"}},
    }
    for value in (True, False):
        with pytest.raises(ConfigError) as refused:
            read_config(config, Path(), "news.yaml", None, [(key, value)])
        [problem] = refused.value.problems
        assert problem.key == key and (not value or problem.message == f"true is not {kind}")
    with pytest.raises(ConfigError, match=rf"{key}: \$\{{FLAG\}} is not {kind}"):
        read_config(config, Path(), "news.yaml", {"FLAG": "true"}, [(key, "${FLAG}")])


def test_true_of_a_step_in_a_list_is_no_number() -> None:
    steps = [{"type": "hashed_text", "dimensions": True}, {"type": "classify", "model": {"type": "majority"}}]
    config = {"name": "news", "source": {"type": "generator"}, "pipeline": {"steps": steps}}
    with pytest.raises(ConfigError, match=r"pipeline\.steps\.0\.dimensions: true is not a whole number"):
        read_config(config, Path(), "news.yaml")

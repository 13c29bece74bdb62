"""Sources, sinks, steps and models that a config names by their class, `module:Class`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from millstream.config.absent_plugin import with_absent
from millstream.config.load import read_back, read_config
from millstream.config.models import Config
from millstream.config.plugins import MODELS, SINKS, SOURCES, STEPS, load, plugin_class, plugin_field
from millstream.errors import ConfigError
from millstream.plugin import ModelConfig, SinkConfig, SourceConfig, StepConfig

CLASSES = "support.plugin_classes"
CONFIG = {
    "name": "letters",
    "source": {"type": f"{CLASSES}:Letters", "records": 7, "idle": "5m"},
    "pipeline": {
        "steps": [
            {"type": f"{CLASSES}:Upper"},
            {"type": "classify", "model": {"type": f"{CLASSES}:LengthModel", "batch_size": 4}},
        ]
    },
    "sinks": {"predictions": {"type": f"{CLASSES}:RowFile", "path": "rows"}},
    "engine": {"type": "local"},
}


class Holder(BaseModel):
    """A field for a model."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[Any, plugin_field(MODELS)]


def refusal(name: str, **options: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as refused:
        Holder.model_validate({"model": {"type": name, **options}})
    return {".".join(map(str, one["loc"])): one["msg"] for one in refused.value.errors()}


def test_a_mapping_becomes_the_class_and_a_mapping_again(tmp_path: Path) -> None:
    loaded = read_config(CONFIG, tmp_path, "letters.yaml")
    config = loaded.config
    assert config.source.config.records == 7 and config.source.times.idle == 300_000_000
    assert [step.name for step in config.steps] == ["Upper", "classify"]
    assert config.steps[1].config.model.batch_size == 4
    resolved = loaded.resolved()
    assert resolved["pipeline"]["steps"][1]["model"] == {
        "type": f"{CLASSES}:LengthModel",
        "batch_size": 4,
        "power": 1.0,
    }
    assert read_config(resolved, tmp_path, "letters.yaml").config == config


def test_an_instance_has_the_name_of_its_class_as_its_type() -> None:
    model = plugin_class(MODELS, f"{CLASSES}:LengthModel")
    assert Holder(model=model(batch_size=2)).model_dump() == {
        "model": {"type": f"{CLASSES}:LengthModel", "batch_size": 2, "power": 1.0}
    }


def test_all_problems_inside_are_reported_at_their_key_paths() -> None:
    assert set(refusal(f"{CLASSES}:LengthModel", power="much", blok=8)) == {"model.power", "model.blok"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no_such_module:M",
            "there is no module 'no_such_module'; install its package, run the command in its folder",
        ),
        (f"{CLASSES}:LengthModle", f"{CLASSES} has no 'LengthModle'; did you mean `LengthModel`?"),
        (
            f"{CLASSES}:COUNT",
            f"{CLASSES}:COUNT is not a class but a value of the type int; the class of a model derives ",
        ),
        (
            f"{CLASSES}:NoPlugin",
            f"{CLASSES}:NoPlugin is not a model; the class of a model derives from millstream.plug",
        ),
        (
            f"{CLASSES}:Upper",
            f"{CLASSES}:Upper is a step, not a model; the class of a model derives from millstream.pl",
        ),
        (
            f"{CLASSES}:Means",
            f"{CLASSES}:Means is not a model; the class of a model derives from millstream.plugin.Mod",
        ),
        (f"{CLASSES}:ModelConfig", f"{CLASSES}:ModelConfig does not define build, as every model does"),
        (f"{CLASSES}:OwnType", f"{CLASSES}:OwnType has a field `type` of its own; leave it out"),
        (f"{CLASSES}:", "is not the name of an object in a module, package.module:name"),
        ("a b:c", "is not the name of an object in a module, package.module:name"),
    ],
)
def test_a_name_that_is_no_model_is_refused_with_the_remedy(name: str, message: str) -> None:
    assert message in refusal(name)["model.type"]


def test_a_sink_without_all_of_its_methods_is_refused_with_their_names() -> None:
    with pytest.raises(ConfigError, match="HalfSink does not define clear, open, progress, read, as every sink"):
        plugin_class(SINKS, f"{CLASSES}:HalfSink")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("import math\n\nRATE = 1 / 0\n", "ZeroDivisionError: division by zero, at {file}, line 3"),
        ("class M:\n    def build(self:\n", "SyntaxError: "),
        ("import sys\nsys.exit('no licence')\n", "SystemExit: no licence, at {file}, line 2"),
        ("import no_such_thing\n", "ModuleNotFoundError: No module named 'no_such_thing', at {file}, line 1"),
        ("import json\njson.loads('{{')\n", "JSONDecodeError: Expecting property name"),
        (
            "from millstream.plugin import ModelConfig\n\nclass M(ModelConfig):\n    rate = 3\n",
            "PydanticUserError: A non-annotated attribute was detected: `rate = 3`.",
        ),
    ],
)
def test_a_module_that_raises_is_refused_with_the_error_and_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str
) -> None:
    file = tmp_path / "raising_module.py"
    file.write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    [(path, found)] = refusal("raising_module:M").items()
    assert path == "model.type"
    assert found.startswith(f"raising_module cannot be imported: {message.format(file=file)}")
    assert len(found.splitlines()) == 1 and (f"at {file}, line" in found or "SyntaxError" in found)


@pytest.mark.parametrize(
    ("group", "base"), [(SOURCES, SourceConfig), (SINKS, SinkConfig), (STEPS, StepConfig), (MODELS, ModelConfig)]
)
def test_the_error_names_the_base_class_of_the_kind(group: str, base: type[BaseModel]) -> None:
    with pytest.raises(ConfigError, match=rf"derives from millstream\.plugin\.{base.__name__}$"):
        plugin_class(group, f"{CLASSES}:NoPlugin")


def test_a_registered_class_with_a_base_class_has_a_schema_of_its_own(install: Any) -> None:
    source = (
        "from millstream.plugin import ModelConfig\n"
        "class Model(ModelConfig):\n    size: int = 1\n    def build(self, records):\n        ...\n"
    )
    install("based", source, models={"based": "based:Model"})
    assert load(MODELS, "based").model_validate({"type": "based"}).model_dump()["type"] == "based"
    assert load(MODELS, "based")().model_dump()["type"] == "based:Model"
    choices = Holder.model_json_schema()["properties"]["model"]["oneOf"]
    [own] = [choice for choice in choices if choice["properties"].get("type", {}).get("const") == "based"]
    assert set(own["properties"]) == {"type", "batch_size", "size"}


def test_a_run_is_read_without_the_modules_of_its_classes(tmp_path: Path) -> None:
    gone: dict[str, Any] = {**CONFIG, "source": {"type": "gone_module:Source", "fields": 3, "idle": "5m"}}
    gone["sinks"] = {"predictions": {"type": "gone_module:Sink", "path": "rows"}}
    with pytest.raises(ConfigError, match="there is no module 'gone_module'"):
        read_config(gone, tmp_path, "letters.yaml")
    config: Config = read_back(gone, tmp_path, "letters.yaml").config
    uses: list[Callable[[], object]] = [
        lambda: config.source.config.open(None),
        lambda: config.source.config.fields,
        lambda: config.sinks["predictions"].progress(None, "predictions"),
    ]
    for use in uses:
        with pytest.raises(
            ConfigError, match=r"^gone_module:S[a-z]+: there is no module 'gone_module'; install its pack"
        ):
            use()
    assert "there is no module" in config.sinks["predictions"].location(None, "predictions")


def test_absent_steps_keep_their_names_and_other_types_are_not_imported(tmp_path: Path) -> None:
    steps = [{"type": "no_such:Step", "name": name, "more": {"type": "no_such:Thing"}} for name in ("one", "two")]
    config = read_back({**CONFIG, "pipeline": {"steps": steps}}, tmp_path, "config.yaml").config
    assert [step.name for step in config.steps] == ["one", "two"]
    assert config.steps[0].config.more == {"type": "no_such:Thing"}
    assert with_absent({"engine": {"type": "no_such:Thing"}}) == {"engine": {"type": "no_such:Thing"}}

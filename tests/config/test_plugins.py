"""Plug-ins of other packages: found by name, checked like our own, harmless when broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from millstream.config import plugins
from millstream.config.plugins import MODELS, STEPS, load, plugin_field, registered
from millstream.errors import ConfigError

Install = Callable[..., None]


class Holder(BaseModel):
    """A field for a model."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[Any, plugin_field(MODELS)]


def messages(error: ValidationError) -> dict[str, str]:
    return {".".join(map(str, one["loc"])): one["msg"] for one in error.errors()}


def test_a_mapping_becomes_the_registered_model(lengths: None) -> None:
    held = Holder.model_validate({"model": {"type": "lengths", "batch_size": 8}})
    assert type(held.model).__name__ == "Lengths"
    assert held.model.batch_size == 8
    assert held.model_dump() == {"model": {"type": "lengths", "batch_size": 8}}


def test_an_instance_passes_through(lengths: None) -> None:
    model = load(MODELS, "lengths")()
    assert Holder(model=model).model is model


def test_all_problems_inside_are_reported_at_their_key_paths(lengths: None) -> None:
    with pytest.raises(ValidationError) as refused:
        Holder.model_validate({"model": {"type": "lengths", "batch_size": "many", "blok": 8}})
    assert set(messages(refused.value)) == {"model.batch_size", "model.blok"}


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"type": "lenghts"}, "model.type", "no such model is installed; one of "),
        ({"type": 3}, "model.type", "no such model is installed; one of "),
        ({"type": ["lengths"]}, "model.type", "no such model is installed; one of "),
        ({}, "model.type", "missing; one of "),
        ("lengths", "model", "a model is a mapping with `type`, one of "),
        (None, "model", "a model is a mapping with `type`, one of "),
    ],
)
def test_a_value_that_is_no_model_is_refused_with_the_installed_ones(
    lengths: None, value: Any, path: str, message: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Holder.model_validate({"model": value})
    assert messages(refused.value)[path].startswith(message)
    assert "lengths" in messages(refused.value)[path]


def test_a_plug_in_that_fails_to_import_is_named_with_its_package_and_harms_no_other(
    install: Install, lengths: None
) -> None:
    install("wrecked", "import no_such_library", models={"wrecked": "wrecked:Model"})
    with pytest.raises(ValidationError) as refused:
        Holder.model_validate({"model": {"type": "wrecked"}})
    assert messages(refused.value)["model.type"] == (
        "the model 'wrecked' of the package wrecked 1.0 (wrecked:Model) cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_library'"
    )
    assert Holder.model_validate({"model": {"type": "lengths"}}).model.type == "lengths"
    choices = Holder.model_json_schema()["properties"]["model"]["properties"]["type"]["anyOf"][0]["enum"]
    assert "lengths" in choices
    assert "wrecked" not in choices


def test_a_registered_object_that_is_no_pydantic_model_is_refused(install: Install) -> None:
    install("odd", "class Model:\n    pass\n", models={"odd": "odd:Model"})
    with pytest.raises(ConfigError, match=r"odd 1\.0 \(odd:Model\) is not a pydantic model with a field 'type'"):
        load(MODELS, "odd")


def test_two_packages_that_claim_one_name_are_both_named(install: Install) -> None:
    source = "from pydantic import BaseModel\nclass Model(BaseModel):\n    type: str = 'twin'\n"
    install("left", source, models={"twin": "left:Model"})
    install("right", source, models={"twin": "right:Model"})
    with pytest.raises(ConfigError, match=r"both register the model 'twin'; uninstall one") as refused:
        load(MODELS, "twin")
    assert "left:Model of left 1.0" in str(refused.value)
    assert "right:Model of right 1.0" in str(refused.value)


def test_a_plug_in_is_imported_only_when_a_config_uses_it(install: Install) -> None:
    install("loud", "raise SystemExit('imported')", steps={"loud": "loud:Step"})
    assert "loud" in registered()[STEPS]


def test_unknown_keys_of_a_model_that_allows_extra_keys_are_reported(install: Install) -> None:
    source = (
        "from pydantic import BaseModel\n"
        "class Inner(BaseModel):\n    size: int = 1\n"
        "class Model(BaseModel):\n    type: str = 'lax'\n    inner: Inner = Inner()\n"
    )
    install("lax", source, models={"lax": "lax:Model"})
    with pytest.raises(ValidationError) as refused:
        Holder.model_validate({"model": {"type": "lax", "sise": 1, "inner": {"sise": 1}}})
    assert set(messages(refused.value)) == {"model.sise", "model.inner.sise"}


def test_every_name_that_this_package_registers_loads() -> None:
    for group, names in plugins.registered().items():
        for name, points in names.items():
            if all(point.dist is not None and point.dist.name == "millstream" for point in points):
                key = "use" if group == plugins.PIPELINES else "type"
                assert load(group, name, key).model_fields[key].default == name


def test_a_package_that_exits_at_its_import_is_refused(install: Install) -> None:
    install("leaving", "raise SystemExit(3)", models={"leaver": "leaving:Leaver"})
    with pytest.raises(ConfigError, match=r"cannot be imported: SystemExit: 3"):
        load(MODELS, "leaver")

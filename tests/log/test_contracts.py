"""The sources and sinks that come with Millstream have each member of the contracts."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from millstream import plugin
from millstream.config import plugins
from millstream.log.contracts import Log, Sink, SinkConfig, SourceConfig
from millstream.steps.contracts import Model, ModelConfig, Step, StepConfig

CONTRACTS: dict[str, Any] = {plugins.SOURCES: SourceConfig, plugins.SINKS: SinkConfig}


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group in CONTRACTS for name in plugins.registered()[group]]
)
def test_a_registered_config_has_each_member_of_its_contract(group: str, name: str) -> None:
    contract, config = CONTRACTS[group], plugins.load(group, name)
    methods = [method for method in vars(contract).values() if inspect.isfunction(method) and method.__name__[0] != "_"]
    properties = {name for name, value in vars(contract).items() if isinstance(value, property)}
    assert methods
    for method in methods:
        own = inspect.signature(getattr(config, method.__name__))
        assert list(own.parameters) == list(inspect.signature(method).parameters), method.__name__
    assert properties <= set(dir(config)) | config.model_fields.keys()


BASES = [
    (SourceConfig, plugin.SourceConfig),
    (SinkConfig, plugin.SinkConfig),
    (Log, plugin.Log),
    (Sink, plugin.Sink),
    (StepConfig, plugin.StepConfig),
    (Step, plugin.Step),
    (ModelConfig, plugin.ModelConfig),
    (Model, plugin.Model),
]


@pytest.mark.parametrize(("contract", "base"), BASES, ids=lambda part: part.__name__)
def test_a_base_class_for_authors_has_each_member_of_its_contract(contract: Any, base: Any) -> None:
    members = [(name, member) for name, member in vars(contract).items() if name[0] != "_"]
    known = set(dir(base)) | set(getattr(base, "model_fields", ())) | set(getattr(base, "__annotations__", ()))
    assert members and {name for name, _ in members} <= known
    for name, member in members:
        if inspect.isfunction(member):
            assert list(inspect.signature(getattr(base, name)).parameters) == list(inspect.signature(member).parameters)


def test_the_names_for_authors_are_one_sorted_list() -> None:
    assert plugin.__all__ == sorted(plugin.__all__)
    assert all(hasattr(plugin, name) for name in plugin.__all__)

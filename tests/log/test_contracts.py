"""The sources and sinks that come with Millstream have each member of the contracts."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from millstream.config import plugins
from millstream.log.contracts import SinkConfig, SourceConfig

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
    assert properties | set(contract.__annotations__) <= set(dir(config)) | config.model_fields.keys()

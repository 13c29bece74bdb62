"""Brokers for tests marked `kafka`: one for the whole test run, and others for tests that stop or kill theirs.

`make test` runs two tests at a time: many wait for others, such as a broker that is away. Those that share the broker
stay together, and so do those that share the Spark session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from kafka_broker import OwnBroker, SharedBroker

from millstream_connectors.kafka.broker import Broker, free_port


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBroker]:
    """The broker that is up for the whole test run: that of MILLSTREAM_TEST_BROKER (host:port), or one of its own."""
    if given := os.environ.get("MILLSTREAM_TEST_BROKER"):
        yield SharedBroker(given)
        return
    own = Broker(tmp_path_factory.mktemp("broker"), free_port())
    own.up()
    yield SharedBroker(own.bootstrap)
    own.kill()


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """Starts a broker for this test alone, which may stop and kill it."""
    started: list[Broker] = []

    def start(settings: Mapping[str, str] = MappingProxyType({}), data: Path | None = None) -> Broker:
        own = Broker(data or tmp_path_factory.mktemp("own-broker"), free_port(), settings)
        started.append(own)
        own.up()
        return own

    yield start
    for own in started:
        own.kill()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares something that is slow to start comes first, and together."""
    for item in items:
        if (group := _shares(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _shares(item) is None)


def _shares(item: pytest.Item) -> str | None:
    case = getattr(item, "callspec", None)
    if case is not None and case.params.get("engine_name") == "spark":
        return "spark"
    return "broker" if "broker" in getattr(item, "fixturenames", ()) else None

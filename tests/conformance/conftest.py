"""The engines of the conformance suite, and the golden runs of its pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.brokers import SharedBroker
from support.engines import Engines
from support.golden import GoldenRuns

from millstream.engines.job import Engine


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    made = Engines()
    yield made
    made.close()


@pytest.fixture
def engine(engines: Engines, engine_name: str) -> Engine:
    return engines[engine_name]


@pytest.fixture(scope="session")
def golden_runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> GoldenRuns:
    def broker() -> SharedBroker:
        shared: SharedBroker = request.getfixturevalue("broker")
        return shared

    return GoldenRuns(tmp_path_factory.mktemp("suite"), broker)

"""Golden runs of the pipelines of the conformance suite, whose histories are computed again."""

from __future__ import annotations

import pytest
from support.brokers import SharedBroker
from support.golden import GoldenRuns


@pytest.fixture(scope="session")
def golden_runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> GoldenRuns:
    def broker() -> SharedBroker:
        shared: SharedBroker = request.getfixturevalue("broker")
        return shared

    return GoldenRuns(tmp_path_factory.mktemp("history"), broker)

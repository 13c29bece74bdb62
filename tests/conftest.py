"""Brokers for tests marked `kafka`: one for the whole test run, and others for tests that stop or kill theirs.

`make test` runs two tests at a time, in two processes: many tests wait for others, such as a broker that is away. Both
processes use one broker, which the first test that needs it starts. Tests in the Spark session of the test run carry
`xdist_group("spark")` and stay in one process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import pytest
from support.brokers import OwnBroker, SharedBroker, broker_in, end_broker_in

from millstream_connectors.kafka.broker import Broker, free_port

_FOLDER = "MILLSTREAM_TEST_FOLDER"
"""The variable by which the processes of a test run know the folder that they share."""


def pytest_configure(config: pytest.Config) -> None:
    if _controls(config):
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="millstream-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _controls(config) and (folder := os.environ.pop(_FOLDER, None)):
        end_broker_in(Path(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _controls(config: pytest.Config) -> bool:
    """True in the process that a user started, False in those that xdist did."""
    return not hasattr(config, "workerinput")


@pytest.fixture(scope="session", autouse=True)
def without_waits_for_the_disk() -> Iterator[None]:
    """In the processes of the test run, a sync only checks that the file is open.

    No test cuts the power, and what a process has written outlives its death. Commands that tests start do sync.
    """
    with pytest.MonkeyPatch.context() as patched:
        for name in ("fsync", "fdatasync"):
            if hasattr(os, name):
                patched.setattr(os, name, _check_open)
        yield


def _check_open(file: int | IO[Any]) -> None:
    os.fstat(file if isinstance(file, int) else file.fileno())


@pytest.fixture(scope="session")
def broker() -> SharedBroker:
    """The broker that is up for the whole test run: that of MILLSTREAM_TEST_BROKER (host:port), or one of its own."""
    if given := os.environ.get("MILLSTREAM_TEST_BROKER"):
        return SharedBroker(given)
    return broker_in(Path(os.environ[_FOLDER]))


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
    """Tests that take long come first, so that both processes end at about the same time."""
    items.sort(key=lambda item: not any(item.get_closest_marker(progress) for progress in ("spark", "long")))

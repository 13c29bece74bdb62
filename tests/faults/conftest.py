"""A pipeline that is run as a user runs it, and its run without a crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.commands import Commands, end_started
from support.documents import write_documents
from support.kills import write_killed

RECORDS, EPOCH = 4_000, 100


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    yield
    end_started()


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    folder = tmp_path_factory.mktemp("commands")
    write_documents(folder / "documents", records=RECORDS)
    return write_killed(folder, EPOCH)


@pytest.fixture(scope="session")
def golden(commands: Commands) -> dict[str, Any]:
    """The same records without any crash, on the local engine."""
    summary = commands.finish("golden")
    assert summary["epochs"] == RECORDS // EPOCH
    return summary

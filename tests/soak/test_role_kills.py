"""A hundred kills of random roles of a local run with workers, over 200,000 records."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from conformance.harness import write_documents
from faults.conftest import Commands, config_of
from faults.role_kills import kill_roles
from faults.test_killed import same

LOCAL = ("--set", "engine.type=local")


@pytest.mark.soak
def test_a_hundred_kills_of_random_parties_over_200_000_records_leave_no_trace(tmp_path: Path) -> None:
    write_documents(tmp_path / "documents", records=200_000)
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(config_of(epoch=50)))
    commands, workers = Commands(tmp_path), (*LOCAL, "--set", "engine.workers=3")
    kill_roles(commands, "roles", workers, kills=100, apart=25_000, seed=11)
    same(commands.finish("roles", *workers), commands.finish("golden", *LOCAL))

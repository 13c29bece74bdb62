"""A diamond of which one branch takes longer than the other: the order in which its records meet stays the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import sign_documents, write_documents
from support.engines import on_engines
from support.pipelines import Pipeline, receipts_of, results
from support.suite import GRAPHS

from millstream.engines.job import Engine
from millstream.engines.local.engine import LocalEngine


@pytest.mark.parametrize("slow", ["clip", "shout"])
@on_engines("local-3")
def test_records_of_a_slow_branch_meet_the_others_in_the_same_order(
    tmp_path: Path, engine: Engine, engine_name: str, slow: str
) -> None:
    """The step behind both branches, and its model, depend on the order of the records."""
    write_documents(tmp_path / "documents")
    sign_documents(tmp_path / "documents")
    pipeline = Pipeline(tmp_path, LocalEngine(), **GRAPHS["diamond"].options)
    golden = pipeline.run("golden")
    pipeline.steps = [_slowed(step) if step.get("name") == slow else step for step in pipeline.steps or []]
    pipeline.engine, pipeline.engine_name = engine, engine_name
    found = pipeline.run("slow")
    assert results(found) == results(golden)
    assert [receipt.outputs for receipt in receipts_of(found)] == [receipt.outputs for receipt in receipts_of(golden)]


def _slowed(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "function": step["function"].replace("user_functions:", "slow_functions:slow_")}

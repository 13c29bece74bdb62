"""`millstream audit` as a user runs it: it refuses a run that has not ended."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.command_result import Millstream
from support.documents import write_documents
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine())


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (CrashPoint(Point.DELIVER, 0), "was interrupted before its first commit; run it again first"),
        (CrashPoint(Point.DELIVER, 4), r"was interrupted after 5 epochs, of which \d are committed; run it again"),
        (CrashPoint(Point.CUT, 0), "has not committed an epoch yet; there is nothing to audit"),
    ],
)
def test_a_run_that_has_not_ended_is_refused_without_a_golden_run(
    pipeline: Pipeline, millstream: Millstream, point: CrashPoint, message: str
) -> None:
    pipeline.crash("run", point)
    ran = millstream("audit", pipeline.folder / "runs/run")
    assert (ran.code, ran.out) == (1, "")
    assert re.search(message, ran.err)
    assert "golden" not in ran.err


def test_a_golden_run_is_announced(pipeline: Pipeline, millstream: Millstream) -> None:
    pipeline.run("run")
    ran = millstream("audit", pipeline.folder / "runs/run")
    assert ran.code == 0 and "precise" in ran.out
    assert ran.err == "making a golden run of the same epochs, without crashes ...\n"
    assert millstream("audit", pipeline.folder / "runs/run", "--json").err == ""

"""The session that the runs of a process share; the sessions here are objects without a Java process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millstream.engines.spark import shared_session
from millstream.engines.spark.shared_session import _SharedSession


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The sessions that were closed; the first call of `open_session` opens one, as long as it is not closed."""
    found: list[Any] = []
    contexts = SimpleNamespace(_active_spark_context=None)

    def open_session(log: Path) -> Any:
        contexts._active_spark_context = contexts._active_spark_context or object()
        return SimpleNamespace(sparkContext=contexts._active_spark_context)

    def close_session(session: Any) -> None:
        found.append(session.sparkContext)
        contexts._active_spark_context = None

    monkeypatch.setattr(shared_session, "SparkContext", contexts)
    monkeypatch.setattr(shared_session, "open_session", open_session)
    monkeypatch.setattr(shared_session, "close_session", close_session)
    return found


def test_a_session_that_a_run_left_open_is_closed_by_a_later_run(tmp_path: Path, closed: list[Any]) -> None:
    shared = _SharedSession()
    kept = shared.open(tmp_path / "log")
    shared.leave(kept, keep=True)
    assert closed == []
    again, beside = shared.open(tmp_path / "log"), shared.open(tmp_path / "log")
    shared.leave(beside, keep=False)
    assert closed == []
    shared.leave(again, keep=False)
    assert closed == [kept.sparkContext]


def test_a_session_of_the_program_stays_open(
    tmp_path: Path, closed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.engines.spark.shared_session.SparkContext._active_spark_context", object())
    shared = _SharedSession()
    shared.leave(shared.open(tmp_path / "log"), keep=False)
    assert closed == []

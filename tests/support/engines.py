"""The engines that the conformance suite runs on, each made once for the test run."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.engines.job import Engine

__all__ = ["ENGINES", "Engines", "marks_of", "on_engines"]

ENGINES = ("simulated", "local", "local-3", "spark")
"""In order of the cost of a run, the cheapest engine first."""


class Engines:
    """Engines by name, made at their first use; `close` ends the Spark session."""

    def __init__(self) -> None:
        self._made: dict[str, Engine] = {}

    def __getitem__(self, name: str) -> Engine:
        if name not in self._made:
            self._made[name] = _make(name)
        return self._made[name]

    def close(self) -> None:
        if "spark" in self._made:
            from pyspark.sql import SparkSession

            session = SparkSession.getActiveSession()
            if session is not None:
                session.stop()


def _make(name: str) -> Engine:
    if name.startswith("local"):
        from millstream.engines.local.engine import LocalEngine

        return LocalEngine()
    if name == "simulated":
        from millstream.engines.simulated.run.engine import SimulatedEngine

        return SimulatedEngine.seeded(1)
    from millstream.engines.spark.engine import SparkEngine

    return SparkEngine(keep_session=True)


def marks_of(engine_name: str) -> list[pytest.MarkDecorator]:
    """The pytest marks of a case on an engine; all cases with the shared Spark session run in one process."""
    return [pytest.mark.spark, pytest.mark.xdist_group("spark")] if engine_name == "spark" else []


def on_engines(*always: str) -> pytest.MarkDecorator:
    """Run a test on every engine; `make test` runs it only on the engines in `always`."""
    cases: list[Any] = []
    for name in ENGINES:
        marks = marks_of(name) if name in always else [*marks_of(name), pytest.mark.matrix]
        cases.append(pytest.param(name, marks=marks))
    return pytest.mark.parametrize("engine_name", cases, scope="session")

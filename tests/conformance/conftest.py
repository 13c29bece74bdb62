"""The engines that the conformance suite runs on; one Spark session for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.engines.job import Engine

ENGINES = ["local", "local-3", "simulated", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(scope="session", params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def engine(engine_name: str) -> Iterator[Engine]:
    if engine_name.startswith("local"):
        from millstream.engines.local.engine import LocalEngine

        yield LocalEngine()
        return
    if engine_name == "simulated":
        from millstream.engines.simulated.run.engine import SimulatedEngine

        yield SimulatedEngine.seeded(1)
        return
    from pyspark.sql import SparkSession

    from millstream.engines.spark.engine import SparkEngine

    yield SparkEngine(keep_session=True)
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where each run takes longer, one model and distance of saves, fewer points of Kafka's, one seed are tried."""
    left_out = [item for item in items if _tried_alone_only(item.nodeid)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _tried_alone_only(test: str) -> bool:
    file, _, rest = test.rpartition("/")[2].partition("::")
    engine = next((engine for engine in ("local-3", "simulated", "spark") if f"[{engine}-" in rest), None)
    if engine is None:
        return False
    if file == "test_deliveries.py":
        return engine != "simulated" and (rest.endswith("-1]") or "-naive_bayes-" not in rest)
    if file == "test_compiled.py":
        return engine == "spark" and any(f"[spark-{name}]" in rest for name in ("naive_bayes", "half_life", "block"))
    if engine == "spark" and ("test_a_sink_that" in rest or "rocksdb" in rest):
        return True
    if file == "test_kafka.py":
        return any(f"{engine}-{point}@" in rest for point in ("cut", "save", "commit"))
    return file == "test_crashes_in_a_row.py" and any(f"{engine}-{seed}]" in rest for seed in (1, 2, 3))

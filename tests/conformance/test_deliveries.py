"""Section by section what each delivery promises, at every point, on every engine.

Golden runs are runs of the same epoch log without a crash. With exactly_once the digests of model, state and outputs
equal theirs; with the others the records trained twice or lost, and the rows repeated or missing, are exactly those
that the one function names, counted by identity.
"""

from __future__ import annotations

from typing import Any

import pytest
from conformance.harness import EPOCHS, Pipeline, sinks_of, write_documents

from millstream.engines.job import Engine
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point

POINTS = [CrashPoint(point, 5) for point in Point] + [CrashPoint(Point.DELIVER, 5, "rejects")]
MODELS: dict[str, dict[str, Any]] = {
    "complement_nb": {"type": "complement_nb", "block": 16},
    "sgd": {"type": "sgd", "block": 16},
    "naive_bayes": {"type": "naive_bayes"},
}


def expect(pipeline: Pipeline, name: str, points: list[CrashPoint], golden: str) -> None:
    """The audit of a run equals what the one function says of its crashes."""
    summary = pipeline.run(name)
    counts = pipeline.counts(golden)
    sinks = sinks_of(summary)
    predicted = pipeline.predicted(points, sinks)
    found = pipeline.audit(name, golden)
    assert found.records == sum(count["records"] for count in counts.values())
    assert found.trained_twice == sum(counts[epoch]["records"] for epoch in predicted.trained_twice)
    assert found.lost == sum(counts[epoch]["records"] for epoch in predicted.lost)
    for place, output in enumerate(sinks):
        if output in ("predictions", "rejects"):  # rows made from one record
            repeated, missing = predicted.rows_repeated[place], predicted.rows_missing[place]
            assert found.outputs[output].repeated == sum(counts[epoch].get(output, 0) for epoch in repeated)
            assert found.outputs[output].missing == sum(counts[epoch].get(output, 0) for epoch in missing)


@pytest.fixture(scope="module", params=MODELS)
def pipeline(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: Engine, engine_name: str
) -> Pipeline:
    folder = tmp_path_factory.mktemp("pipeline")
    write_documents(folder / "documents")
    placement = {} if request.param == "naive_bayes" else {"features": "worker"}  # it has no step for features
    made = Pipeline(folder, engine, model=MODELS[request.param], engine_name=engine_name, placement=placement)
    summary = made.run("golden")
    assert summary.epochs == EPOCHS
    assert summary.accuracy is not None and summary.accuracy > 0.5
    return made


@pytest.mark.parametrize("save_every", [1, 4])
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_exactly_once_cannot_be_told_from_a_run_without_crashes(
    pipeline: Pipeline, point: CrashPoint, save_every: int
) -> None:
    pipeline.delivery, pipeline.save_every = Delivery.EXACTLY_ONCE, save_every
    name = f"exactly-{point}-{save_every}"
    pipeline.crash(name, point)
    summary = pipeline.run(name)
    golden = pipeline.summary("golden")
    assert (summary.model, summary.state) == (golden.model, golden.state)
    assert summary.outputs == golden.outputs
    assert (summary.accuracy, summary.baselines) == (golden.accuracy, golden.baselines)
    assert summary.records == golden.records


@pytest.mark.parametrize("save_every", [1, 4])
@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_the_other_deliveries_do_exactly_what_the_function_says(
    pipeline: Pipeline, point: CrashPoint, delivery: Delivery, save_every: int
) -> None:
    pipeline.delivery, pipeline.save_every, pipeline.commit_every = delivery, save_every, 1
    name = f"{delivery}-{point}-{save_every}"
    pipeline.crash(name, point)
    expect(pipeline, name, [point], "golden")

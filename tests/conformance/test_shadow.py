"""A shadow enters a run, learns beside its champion, and takes its place, on every engine and around every crash."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.documents import write_documents
from support.engines import ENGINES, Engines, marks_of, on_engines
from support.forked_runs import fork, interrupted
from support.histories import state_in
from support.pipelines import Pipeline, assert_promise, results
from support.planned_events import PlannedEvents, entering

from millstream.api.run import open_run
from millstream.engines.cutter import NoEvents
from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredLog
from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import EpochReader, Event, Swap
from millstream.runs.directory import RunDirectory
from millstream.runs.model_versions import newest_artefact
from millstream.runs.outputs import load_run
from millstream.state.model_version import ModelVersion

ENTERS, SWAPS = 2, 5
"""The epochs with which the version enters the shadow, and with which the shadow takes the champion's place."""
OTHER = {"type": "multinomial_nb", "alpha": 0.5, "batch_size": 10}
FILES = {"type": "files", "format": "jsonl"}


def steps(model: dict[str, Any], shadow: bool = True) -> list[dict[str, Any]]:
    classify = {"type": "classify", "name": "label", "model": model}
    return [
        {"type": "hashed_text", "name": "features", "dimensions": 256},
        {**classify, "shadow": {"from": "models:/news@challenger"}} if shadow else classify,
        {"type": "popularity", "window": {"type": "tumbling", "size": "10m"}, "threshold": 0.3},
    ]


@dataclass(frozen=True)
class Shadowed:
    """A pipeline whose shadow takes the champion's place, the version that enters, and the golden run."""

    pipeline: Pipeline
    version: ModelVersion
    golden: Any

    def on(self, engines: Engines, engine_name: str, **options: Any) -> Pipeline:
        return replace(self.pipeline, engine=engines[engine_name], engine_name=engine_name, **options)


@pytest.fixture(scope="module")
def shadowed(tmp_path_factory: pytest.TempPathFactory) -> Shadowed:
    folder = tmp_path_factory.mktemp("shadow")
    write_documents(folder / "documents")
    sinks = {
        "predictions": FILES,
        "label_shadow.predictions": FILES,
        "topics": {"type": "journal", "path": "{run}-topics"},
    }
    plain = {name: sink for name, sink in sinks.items() if name != "label_shadow.predictions"}
    other = Pipeline(folder, LocalEngine(), steps=steps(OTHER, shadow=False), placement={}, sinks=plain)
    other.run("other", records=90)
    version = version_of(folder / "runs/other")
    events: dict[int, list[Event]] = {
        ENTERS: [entering("label_shadow", version)],
        SWAPS: [Swap("label", "models:/news/1")],
    }
    pipeline = replace(
        other,
        steps=steps({"type": "sgd", "batch_size": 16}),
        sinks=sinks,
        inbox=lambda store: PlannedEvents(events, [version], store),
    )
    return Shadowed(pipeline, version, pipeline.run("golden"))


def version_of(run: Path) -> ModelVersion:
    directory = RunDirectory(run)
    return newest_artefact(directory, load_run(directory)).version


def test_the_shadow_predicts_and_learns_from_its_epoch_on_and_takes_the_place_of_its_champion(
    shadowed: Shadowed,
) -> None:
    directly: dict[int, list[Event]] = {ENTERS: [entering("label", shadowed.version)]}
    alone = replace(
        shadowed.pipeline,
        steps=steps({"type": "sgd", "batch_size": 16}, shadow=False),
        sinks={"predictions": FILES},
        inbox=lambda store: PlannedEvents(directly, [shadowed.version], store),
    )
    alone.run("alone")
    run, other = (shadowed.pipeline.folder / "runs" / name for name in ("golden", "alone"))
    expected, shadow, champion = rows_of(other), rows_of(run, "label_shadow.predictions"), rows_of(run)
    begin, swap = (positions_before(run, epoch) for epoch in (ENTERS, SWAPS))
    assert shadow == {key: row for key, row in expected.items() if begin[key[0]] <= key[1] < swap[key[0]]}
    later = {key for key in expected if key[1] >= swap[key[0]]}
    assert later and all(champion[key] == expected[key] for key in later)
    assert state_in(run, "label") == state_in(other, "label")
    totals = EpochReader(run / "epochs").totals()
    assert totals.models.versions["label"].since == SWAPS and not totals.models.trials
    assert totals.scores["label_shadow"].labelled == sum(row["label"] is not None for row in shadow.values())


def rows_of(run: Path, output: str = "predictions") -> dict[tuple[int, int], dict[str, Any]]:
    return {(row["_partition"], row["_offset"]): row for row in open_run(run).output(output).to_pylist()}


def positions_before(run: Path, epoch: int) -> dict[int, int]:
    """The position of each partition before an epoch."""
    return {rank: start for rank, (start, _) in next(EpochReader(run / "epochs").epochs(epoch)).cut.items()}


def cases() -> list[Any]:
    """The product of all factors, of which the simulated engine runs a part in `make test`, and the others less."""
    epochs = (ENTERS - 1, ENTERS, ENTERS + 1, SWAPS - 1, SWAPS, SWAPS + 1)
    product = list(itertools.product(ENGINES, Delivery, Point, epochs, (4, 1)))
    often = {"simulated": 29, "local": 83, "local-3": 61, "spark": 131}
    return [
        pytest.param(
            *case, marks=marks_of(case[0]) if index % often[case[0]] == 0 else [*marks_of(case[0]), pytest.mark.matrix]
        )
        for index, case in enumerate(product)
    ]


@pytest.mark.parametrize(("engine_name", "delivery", "point", "epoch", "checkpoint_every"), cases())
def test_a_crash_before_with_or_after_the_epoch_of_an_event_leaves_what_the_delivery_promises(
    shadowed: Shadowed,
    engines: Engines,
    engine_name: str,
    delivery: Delivery,
    point: Point,
    epoch: int,
    checkpoint_every: int,
) -> None:
    pipeline = shadowed.on(engines, engine_name, delivery=delivery, checkpoint_every=checkpoint_every)
    name, crash = f"{engine_name}-{delivery}-{point}-{epoch}-{checkpoint_every}", CrashPoint(point, epoch)
    pipeline.crash(name, crash)
    if delivery is Delivery.EXACTLY_ONCE:
        assert results(pipeline.run(name)) == results(shadowed.golden)
        assert state_in(pipeline.folder / "runs" / name, "label") == state_in(pipeline.folder / "runs/golden", "label")
    else:
        assert_promise(pipeline, name, [crash], "golden")


@on_engines("simulated", "local-3")
def test_a_replay_and_an_audit_need_the_versions_of_the_run_and_no_registry(
    shadowed: Shadowed, engines: Engines, engine_name: str
) -> None:
    pipeline = replace(shadowed.on(engines, engine_name), inbox=lambda store: NoEvents())
    runs, name = pipeline.folder / "runs", f"replayed-{engine_name}"
    assert results(pipeline.run(name, replay=runs / "golden")) == results(shadowed.golden)
    assert [path.name for path in (runs / name / "models").iterdir()] == [shadowed.version.entered]
    found = pipeline.audit(name)
    assert (found.state, found.output) == (OutputClass.PRECISE, OutputClass.PRECISE)


@pytest.mark.parametrize("at", [3, 6, "from-start"])
def test_a_fork_has_the_events_after_its_base_with_their_versions(
    shadowed: Shadowed, engines: Engines, at: int | str
) -> None:
    pipeline, name = shadowed.on(engines, "local"), f"fork-{at}"
    if not (pipeline.folder / "runs/interrupted").exists():
        interrupted(pipeline, "interrupted")
    made = fork(pipeline, "interrupted", name, **({"from_start": True} if isinstance(at, str) else {"at": at}))
    assert all(step.kept for step in made.steps)
    summary = pipeline.run(name)
    assert results(summary)[:2] == results(shadowed.golden)[:2]
    assert pipeline.audit(name).state is OutputClass.PRECISE


@pytest.mark.parametrize("damage", ["gone", "altered"])
def test_a_version_that_is_gone_or_altered_is_refused_with_its_path(
    shadowed: Shadowed, engines: Engines, damage: str
) -> None:
    pipeline = shadowed.on(engines, "local", checkpoint_every=4)
    pipeline.crash(damage, CrashPoint(Point.PROCESS, ENTERS))
    folder = pipeline.folder / "runs" / damage / "models" / shadowed.version.entered
    if damage == "gone":
        (folder / "version.json").unlink()
    else:
        content = bytearray((folder / "arrays.safetensors").read_bytes())
        content[-1] ^= 1
        (folder / "arrays.safetensors").write_bytes(content)
    with pytest.raises(AlteredLog, match=str(folder)):
        pipeline.run(damage)


def test_the_model_of_a_promoted_version_is_exported_with_its_own_options(shadowed: Shadowed) -> None:
    found = version_of(shadowed.pipeline.folder / "runs/golden")
    assert found.model["type"] == OTHER["type"] and found.model["alpha"] == OTHER["alpha"]
    assert "options" not in found.state and "shadow" not in found.steps[-1]

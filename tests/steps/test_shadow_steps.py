"""A shadow in the graph: a step beside its champion that changes nothing of the other steps while it has no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.config.load import read_config
from millstream.engines.workers.legs import legs_of
from millstream.errors import ConfigError, Contradiction, MillstreamError
from millstream.guarantees.validation import checked_graph
from millstream.log.epochs import Added, Epoch, PartitionName, Swap
from millstream.steps.graph import Graph, build_graph
from millstream.steps.placement import chain_from_sources
from millstream.steps.processor import EpochProcessor

FEATURES = {"type": "hashed_text", "name": "features", "dimensions": 64}
LABEL = {"type": "classify", "name": "label", "model": {"type": "complement_nb", "batch_size": 4}}
SHADOW = {"shadow": {"from": "models:/news@challenger"}}
POPULARITY = {"type": "popularity", "window": {"type": "tumbling", "size": "1h"}}
RECORDS = pa.table(
    {
        "_rank": pa.array([0] * 6, pa.int32()),
        "_offset": pa.array(range(6), pa.int64()),
        "_time": pa.array(range(6), pa.int64()),
        "_reject": pa.nulls(6, pa.string()),
        "text": ["a goal", "a train", "the goal", "the train", "one goal", "a goal"],
        "label": ["sport", "travel", "sport", "travel", "sport", None],
    }
)


def config(*steps: dict[str, Any], folder: Path | None = None, **parts: Any) -> Any:
    content = {
        "name": "small",
        "source": {"type": "files", "path": "none"},
        "pipeline": {"steps": list(steps)},
        **parts,
    }
    return read_config(content, folder or Path(), "small.yaml")


def graph(*steps: dict[str, Any]) -> Graph:
    loaded = config(*steps).config
    return build_graph(loaded.steps, ["text", "label"], loaded.source_times)


def first(*events: Any) -> Epoch:
    return Epoch(0, {0: (0, 6)}, (Added(PartitionName("source", "0", 0)), *events), 10**16)


def test_a_shadow_is_the_last_step_and_reads_what_its_champion_reads() -> None:
    made = graph(FEATURES, {**LABEL, **SHADOW}, POPULARITY)
    assert {node.name: node.reads for node in made.steps} == {
        "features": ("source",),
        "label": ("features",),
        "popularity": ("label",),
        "label_shadow": ("features",),
    }
    assert list(made.outputs) == ["rejects", "predictions", "label_shadow.predictions", "topics", "late"]
    assert made.is_chain and [node.name for node in chain_from_sources(made)] == ["features", "label", "popularity"]
    [leg] = [leg for leg in legs_of(made).all if made.node("label") in leg.steps]
    assert made.node("label_shadow") in leg.steps


def test_the_receipt_and_the_rows_are_the_same_with_a_shadow_that_has_no_model() -> None:
    results, outcomes = [], []
    for label in (LABEL, {**LABEL, **SHADOW}):
        processor = EpochProcessor(graph(FEATURES, label))
        processor.restore({}, [])
        results.append(processor.process(first(), RECORDS))
        outcomes.append(processor.outcome())
    assert results[0].receipt == results[1].receipt
    assert results[0].rows["predictions"] == results[1].rows["predictions"]
    assert results[1].rows["label_shadow.predictions"].num_rows == 0
    assert outcomes[0].digest == outcomes[1].digest and outcomes[0].models == outcomes[1].models


def test_a_shadow_without_a_model_refuses_to_predict() -> None:
    step: Any = graph(FEATURES, {**LABEL, **SHADOW}).node("label_shadow").step
    assert step.save() == {}
    with pytest.raises(MillstreamError, match="the shadow has no model"):
        step.ask(RECORDS)


def test_a_swap_without_the_shadow_is_refused() -> None:
    processor = EpochProcessor(graph(FEATURES, LABEL))
    processor.restore({}, [])
    with pytest.raises(Contradiction, match="epoch 0 gives the step 'label' the model of its shadow"):
        processor.process(first(Swap("label", "models:/news/1")), RECORDS)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([FEATURES, {**LABEL, "name": "label_shadow"}], "'label_shadow' can only be the name of a shadow"),
        (
            [FEATURES, {**LABEL, "from": ["features", "again"], **SHADOW},
             {"type": "filter", "name": "again", "from": "label", "function": "operator:not_"}],
            "a step in a cycle can have no shadow",
        ),
        ([FEATURES, {**LABEL, "shadow": {"from": "news@champion"}}], "shadow.from"),
        ([{**LABEL, "shadow": {"from": "models:/n/1", "promote": {"better": 0, "over": 9}}}], "promote.better"),
    ],
)  # fmt: skip
def test_shadows_that_cannot_be_are_refused(steps: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match=message):
        checked_graph(config(*steps, folder=tmp_path))


def test_the_short_name_of_an_output_and_its_full_name_are_one_sink(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none/a.jsonl").touch()
    sinks = {"predictions": {"type": "files"}, "label_shadow.predictions": {"type": "files"}}
    made = checked_graph(config(FEATURES, {**LABEL, **SHADOW}, folder=tmp_path, sinks=sinks))
    assert {"predictions", "label_shadow.predictions"} <= set(made.outputs)
    both = {"predictions": {"type": "files"}, "label.predictions": {"type": "files"}}
    with pytest.raises(ConfigError, match=r"`label.predictions` is the same output"):
        checked_graph(config(FEATURES, {**LABEL, **SHADOW}, folder=tmp_path, sinks=both))


def test_the_shadow_is_no_part_that_may_not_change() -> None:
    from millstream.runs.fixed_parts import fixed_parts

    parts = [fixed_parts(config(FEATURES, label)) for label in (LABEL, {**LABEL, **SHADOW})]
    assert parts[0] == parts[1]

"""The columns of outputs: two steps that share one tell their rows apart, and no name is there twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from millstream.config.pipeline import NamedStep
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.log.ranges import records_schema
from millstream.steps.functions import Filter
from millstream.steps.graph import build_graph, check_graph
from millstream.steps.join import Join
from millstream.steps.output_rows import identity_columns
from millstream.steps.popularity import Popularity
from millstream.steps.processor import EpochProcessor
from millstream.steps.rising_words import Trending
from millstream.steps.top_k import TopK

HOUR = {"type": "tumbling", "size": "1h"}


def popularity(name: str, **options: Any) -> NamedStep:
    return NamedStep(name, Popularity.model_validate({"name": name, "of": "text", "window": HOUR, **options}))


def test_a_record_that_two_steps_of_a_chain_reject_has_two_identities() -> None:
    graph = build_graph([popularity("hours"), popularity("days", window={**HOUR, "size": "1d"})], ["text"])
    columns = {"_rank": [0], "_offset": [7], "_time": [None], "_reject": [None], "text": ["a"]}
    records = pa.table(columns).cast(records_schema(graph.fields))
    result = EpochProcessor(graph).process(Epoch(0, {}, (Added(PartitionName("source", "a", 0)),)), records)
    rejects = result.rows["rejects"]
    identity = identity_columns(graph.outputs["rejects"])
    assert identity == ["_source", "_partition", "_offset", "step"]
    assert rejects.select(identity).to_pylist() == [
        {"_source": "source", "_partition": 0, "_offset": 7, "step": name} for name in ("hours", "days")
    ]


def test_the_rejects_of_a_single_step_have_the_identity_of_the_record() -> None:
    graph = build_graph([popularity("hours")], ["text"])
    assert identity_columns(graph.outputs["rejects"]) == ["_source", "_partition", "_offset"]


@pytest.mark.parametrize(
    ("config", "options", "field"),
    [
        (Popularity, {}, "topic"),
        (Popularity, {"emit": {"early": "10m"}}, "count"),
        (TopK, {}, "value"),
        (TopK, {}, "rank"),
        (Trending, {}, "word"),
    ],
)
def test_a_key_with_the_name_of_a_column_of_the_rows_is_refused(
    config: type[Popularity], options: dict[str, Any], field: str
) -> None:
    windows = config.model_validate({"name": "w", "of": "label", "by": ["text", field], "window": HOUR, **options})
    step = NamedStep("w", windows, path=("pipeline", "steps", 0))
    graph, [problem] = check_graph([step], ["text", "label", field])
    assert graph is None and problem.path == step.path
    assert "step 'w', `by`: the rows of " in problem.message
    assert f" have a column {field!r} of their own; give the field another name" in problem.message


def test_a_key_with_the_name_of_the_column_that_names_the_step_is_refused_where_steps_share_late() -> None:
    join = Join.model_validate({"name": "both", "by": "step", "within": "1h"})
    path = ("pipeline", "steps", 1)
    steps = [
        NamedStep("short", Filter(function="support.user_functions:short", rest=True)),
        NamedStep("both", join, path, reads=("short", "short.rest")),
    ]
    assert check_graph(steps, ["text", "step"])[1] == []
    graph, [problem] = check_graph([*steps, replace(popularity("hours"), reads=("short",))], ["text", "step"])
    assert graph is None and problem.path == path
    assert "step 'both' makes `late` with the field 'step' of its key, but all steps share `late`" in problem.message

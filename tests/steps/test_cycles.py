"""Cycles in one process: rounds, the identities and the order of records, and the configs that are refused."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from millstream.config.pipeline import CycleLimits, NamedStep
from millstream.config.sources import SourceTime
from millstream.errors import StepFailed
from millstream.log.epochs import Added, Ended, Epoch, PartitionName
from millstream.log.ranges import records_schema
from millstream.steps.functions import Filter, FlatMap, Map
from millstream.steps.graph import Graph, build_graph, check_graph
from millstream.steps.join import Join
from millstream.steps.per_key import PerKey
from millstream.steps.processor import EpochProcessor, EpochResult
from millstream.steps.top_k import TopK

FIELDS = ["text", "time"]
SOURCES = {"news": SourceTime()}


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("rules")
    module.less = lambda record: {"text": str(int(record["text"]) - 1)}
    module.left = lambda record: int(record["text"]) > 0
    module.above = lambda record: int(record["text"]) > -2
    module.keep = lambda record: {}
    module.halves = lambda record: [{"text": str(int(record["text"]) // 2)}] * (2 if int(record["text"]) > 1 else 0)
    module.seen = lambda record, state: ({}, [*(state or []), record["text"]])
    module.twice = lambda record: [{}, {}] if record["text"] else []
    module.same = lambda record: [{}] if record["text"] else []
    module.close = lambda key, state: {"seen": "1"}
    monkeypatch.setitem(sys.modules, "rules", module)


def mapped(name: str, function: str, *reads: str, **options: Any) -> NamedStep:
    return NamedStep(name, Map(function=f"rules:{function}", **options), reads=reads or None)


def left(name: str, *reads: str) -> NamedStep:
    return NamedStep(name, Filter(function="rules:left", rest=True), reads=reads or None)


COUNTDOWN = [mapped("less", "less", "news", "left"), left("left", "less")]
"""Every number is sent back, one less in each round, until it is 0."""
ABOVE = Filter(function="rules:above")


def processed(graph: Graph, *texts: str, number: int = 0, processor: EpochProcessor | None = None) -> EpochResult:
    """The result of an epoch with these texts, of the offsets from 0 on."""
    size = len(texts)
    columns = {"_rank": [0] * size, "_offset": range(size), "_time": range(size), "_reject": [None] * size}
    records = pa.table({**columns, "text": texts}).cast(records_schema(graph.fields))
    added = (Added(PartitionName("news", "a", 0)),) if number == 0 else ()
    return (processor or EpochProcessor(graph)).process(Epoch(number, {}, added), records)


def rows_of(result: EpochResult, output: str) -> list[tuple[int, str, str]]:
    columns = result.rows[output].select(["_offset", "_path", "text"]).to_pylist()
    return [tuple(row.values()) for row in columns]


def test_a_round_holds_what_the_round_before_sent_back() -> None:
    graph = build_graph(COUNTDOWN, FIELDS, SOURCES, ["less", "left.rest"])
    result = processed(graph, "3", "1", "2")
    assert rows_of(result, "less") == [
        (0, "", "2"),
        (1, "", "0"),
        (2, "", "1"),
        (0, "r1", "1"),
        (2, "r1", "0"),
        (0, "r2", "0"),
    ]
    assert rows_of(result, "left.rest") == [(1, "", "0"), (2, "r1", "0"), (0, "r2", "0")]
    assert result.receipt.rounds == {"less": 3}
    assert result.receipt.streams["less"].count == 6
    assert result.receipt.line()["rounds"] == {"less": 3}


def test_a_graph_without_a_cycle_has_no_rounds_in_its_receipts() -> None:
    graph = build_graph([mapped("keep", "keep")], FIELDS, SOURCES)
    assert "rounds" not in processed(graph, "3").receipt.line()


def test_the_path_of_a_record_that_only_goes_around_does_not_grow() -> None:
    graph = build_graph(COUNTDOWN, FIELDS, SOURCES, ["less"])
    assert rows_of(processed(graph, "700"), "less")[-1] == (0, "r699", "0")


def test_children_in_a_cycle_have_identities_of_their_own() -> None:
    halves = NamedStep("halves", FlatMap(function="rules:halves"), reads=("news", "halves"))
    graph = build_graph([halves], FIELDS, SOURCES, ["halves"])
    rows = rows_of(processed(graph, "4"), "halves")
    assert [(path, text) for _, path, text in rows] == [
        ("0", "2"),
        ("1", "2"),
        ("0.r1.0", "1"),
        ("0.r1.1", "1"),
        ("1.r1.0", "1"),
        ("1.r1.1", "1"),
    ]


def test_two_back_edges_that_bring_the_same_record_tell_it_apart() -> None:
    steps = [
        mapped("less", "less", "news", "left", "again"),
        left("left", "less"),
        NamedStep("again", Filter(function="rules:left"), reads=("less",)),
    ]
    rows = rows_of(processed(build_graph(steps, FIELDS, SOURCES, ["less"]), "2"), "less")
    assert rows == [(0, "", "1"), (0, "r1", "0"), (0, "r1:1", "0")]
    rows = rows_of(processed(build_graph(steps, FIELDS, SOURCES, ["less"]), "4"), "less")
    assert len({row[1] for row in rows}) == len(rows) == 1 + 2 + 4 + 8


def test_a_step_behind_a_cycle_gets_all_rounds_in_their_order_in_one_epoch() -> None:
    behind = NamedStep("seen", PerKey(key="text", function="rules:seen"), reads=("name",))
    name = mapped("name", "keep", "less", "news")
    graph = build_graph([*COUNTDOWN, name, behind], FIELDS, SOURCES, ["name"])
    paths = [(offset, path, text) for offset, path, text in rows_of(processed(graph, "2", "1"), "name")]
    assert paths == [
        (0, "0", "1"),
        (0, "1", "2"),
        (1, "0", "0"),
        (1, "1", "1"),
        (0, "r1.0", "0"),
    ]


def test_an_epoch_that_is_cut_anew_takes_the_same_rounds() -> None:
    graph = build_graph(COUNTDOWN, FIELDS, SOURCES, ["less"])
    first, again = (processed(build_graph(COUNTDOWN, FIELDS, SOURCES, ["less"]), "3", "9") for _ in range(2))
    assert first.receipt == again.receipt
    assert processed(graph).receipt.rounds == {"less": 1}, "an epoch without records takes one round"


def test_rounds_are_counted_for_each_epoch() -> None:
    graph = build_graph(COUNTDOWN, FIELDS, SOURCES, ["less"])
    processor = EpochProcessor(graph)
    assert processed(graph, "3", processor=processor).receipt.rounds == {"less": 3}
    assert processed(graph, "1", number=1, processor=processor).receipt.rounds == {"less": 1}


def test_a_cycle_that_never_ends_is_an_error_that_names_the_record() -> None:
    more = NamedStep("more", FlatMap(function="rules:same"), reads=("news", "more"))
    graph = build_graph([more], FIELDS, SOURCES, limits=CycleLimits(rounds=20))
    message = (
        "the cycle of 'more' has not ended after 20 rounds: the record news/a offset 1 and 1 more is sent back again "
        "in epoch 0; send back only what has changed, or raise `pipeline.rounds`"
    )
    with pytest.raises(StepFailed) as error:
        processed(graph, "", "3", "4")
    assert str(error.value) == message
    assert (error.value.rank, error.value.offset) == (0, 1)


def test_a_cycle_that_grows_is_an_error_before_it_takes_all_memory() -> None:
    more = NamedStep("more", FlatMap(function="rules:twice"), reads=("news", "more"))
    graph = build_graph([more], FIELDS, SOURCES, limits=CycleLimits(100_000, sent_back=1000))
    with pytest.raises(StepFailed) as error:
        processed(graph, "", "3")
    assert str(error.value) == (
        "the cycle of 'more' has sent back 1,022 records in 9 rounds, and 1,000 are allowed: "
        "the record news/a offset 1 and 511 more is sent back again in epoch 0; "
        "send back only what has changed, or raise `pipeline.sent_back`"
    )
    assert (error.value.rank, error.value.offset) == (0, 1)


def test_as_many_records_as_allowed_are_no_error() -> None:
    graph = build_graph(COUNTDOWN, FIELDS, SOURCES, limits=CycleLimits(sent_back=2 + 2 + 1))
    assert processed(graph, "4", "3").receipt.rounds == {"less": 4}
    with pytest.raises(StepFailed, match="has sent back 6 records in 3 rounds, and 5 are allowed"):
        processed(graph, "4", "4")


def test_too_many_back_edges_are_refused() -> None:
    steps = [NamedStep("x", FlatMap(function="rules:same"), reads=("news",))]
    for number in range(65):
        steps.append(NamedStep(f"x{number}", FlatMap(function="rules:same"), reads=(steps[-1].name, f"x{number}")))
    [problem] = check_graph(steps, FIELDS, SOURCES)[1]
    assert problem.message == "there are 65 back edges, and at most 64 are allowed; use fewer cycles"
    assert problem.path[-2:] == ("from", 1)


def test_as_many_rounds_as_allowed_are_no_error() -> None:
    graph = build_graph(COUNTDOWN, FIELDS, SOURCES, limits=CycleLimits(rounds=4))
    assert processed(graph, "4").receipt.rounds == {"less": 4}
    with pytest.raises(StepFailed, match="has not ended after 4 rounds"):
        processed(graph, "5")


def problems_of(*steps: NamedStep) -> list[str]:
    return [problem.message for problem in check_graph(steps, FIELDS, SOURCES)[1]]


def test_rows_of_windows_cannot_enter_a_cycle() -> None:
    words = NamedStep("words", TopK(of="text", window={"type": "count", "size": 4}), reads=("news",))
    [message] = problems_of(words, mapped("less", "keep", "words.top", "left"), left("left", "less"))
    assert message.startswith("the rows of windows cannot enter a cycle, and 'words.top' has such rows; ")


def test_a_step_of_a_cycle_cannot_wait_for_an_end() -> None:
    ends = PerKey(key="text", function="rules:seen", ended="rules:close", makes=["seen"])
    [message] = problems_of(
        mapped("less", "less", "news", "left"), NamedStep("ends", ends, reads=("less",)), left("left", "ends")
    )
    assert message.startswith("step 'ends' waits for ends in event time, and the rows of an end cannot go around")


@pytest.mark.parametrize(
    ("ways", "found"),
    [
        (["again.rejects"], "step 'less': the streams 'news' and 'again.rejects' have different columns"),
        (["again.more"], "step 'less': there is no stream 'again.more'; step 'again' makes rejects"),
        (["again"], "the steps pass every record on, in a cycle that nothing ends: less <- again <- less"),
        (["left"], None),
        (["left.rest"], None),
    ],
)
def test_an_output_or_a_step_that_leaves_records_out_closes_a_cycle(ways: Sequence[str], found: str | None) -> None:
    again = mapped("again", "keep", "less", on_error="reject")
    problems = problems_of(mapped("less", "less", "news", *ways), again, left("left", "again"))
    assert [message[: len(found or "")] for message in problems] == ([] if found is None else [found])


def test_records_that_are_released_at_the_boundary_go_around_there() -> None:
    join = NamedStep("both", Join.model_validate({"by": "text", "within": "10us", "how": "left"}), ("x",), ("a", "b"))
    steps = [join, mapped("less", "less", "both.unmatched", "left"), left("left", "less")]
    sources = {name: SourceTime(fields=("text", "time")) for name in ("a", "b")}
    graph = build_graph(steps, FIELDS, sources, ["less", "left.rest"])
    processor = EpochProcessor(graph)
    columns = {"_rank": [0, 0], "_offset": [0, 1], "_time": [1, 2], "_reject": [None] * 2, "text": ["2", "1"]}
    added = (Added(PartitionName("a", "0", 0)), Added(PartitionName("b", "0", 1)))
    waiting = processor.process(Epoch(0, {}, added), pa.table(columns).cast(records_schema(graph.fields)))
    assert waiting.receipt.rounds == {"less": 1} and not waiting.rows["less"].num_rows
    ended = processor.process(Epoch(1, {}, (Ended(0), Ended(1))), records_schema(graph.fields).empty_table())
    assert rows_of(ended, "less") == [(0, "", "1"), (1, "", "0"), (0, "r1", "0")]
    assert rows_of(ended, "left.rest") == [(1, "", "0"), (0, "r1", "0")]
    assert ended.receipt.rounds == {"less": 1 + 2}, "one without records, and two at the boundary"


def test_a_second_cycle_keeps_the_order_of_causes() -> None:
    steps = [*COUNTDOWN, mapped("more", "less", "left.rest", "again"), NamedStep("again", ABOVE, reads=("more",))]
    graph = build_graph([*steps, mapped("all", "keep", "more", "less")], FIELDS, SOURCES, ["all", "more"])
    result = processed(graph, "2", "1")
    assert result.receipt.rounds == {"less": 2, "more": 2}
    assert rows_of(result, "more") == [(1, "", "-1"), (0, "r1", "-1"), (1, "r1:1", "-2"), (0, "r1.r2:1", "-2")]
    assert len({row[:2] for row in rows_of(result, "all")}) == result.rows["all"].num_rows == 7

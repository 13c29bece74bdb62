"""Graphs in one process: forks, unions and several sources, and the rows of windows that other steps read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from millstream.config.pipeline import NamedStep
from millstream.config.sources import SourceTime
from millstream.errors import StepFailed
from millstream.log.epochs import Added, Ended, Epoch, PartitionName
from millstream.log.ranges import records_schema
from millstream.steps.contracts import Output, Result, Scope, Traits, WindowRows
from millstream.steps.functions import Filter, Map
from millstream.steps.graph import Graph, build_graph, check_graph
from millstream.steps.popularity import Popularity
from millstream.steps.processor import EpochProcessor, EpochResult
from millstream.steps.rising_words import Trending
from millstream.steps.top_k import TopK
from millstream.substreams import Watermark

FIELDS = ["text", "time"]
SOURCES = {"news": SourceTime(), "blogs": SourceTime()}


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("rules")
    module.upper = lambda record: {"text": record["text"].upper()}
    module.twice = lambda record: {"text": record["text"] * 2}
    module.long = lambda record: len(record["text"]) > 3
    module.keep = lambda record: {}
    module.all = lambda record: True
    monkeypatch.setitem(sys.modules, "rules", module)


def mapped(name: str, function: str, *reads: str) -> NamedStep:
    return NamedStep(name, Map(function=f"rules:{function}"), reads=reads or None)


def filtered(name: str, *reads: str) -> NamedStep:
    return NamedStep(name, Filter(function="rules:long"), reads=reads or None)


def records(*rows: tuple[int, int, int | None, str], graph: Graph) -> pa.Table:
    """Records: rank, offset, time and text."""
    ranks, offsets, times, texts = zip(*rows, strict=True)
    columns = {"_rank": ranks, "_offset": offsets, "_time": times, "_reject": [None] * len(rows), "text": texts}
    return pa.table(columns).cast(records_schema(graph.fields))


def processed(graph: Graph, *rows: tuple[int, int, int | None, str], number: int = 0, **parts: Any) -> EpochResult:
    """The result of an epoch with these records, of the partitions news/a and blogs/b."""
    return epoch_of(EpochProcessor(graph), graph, *rows, number=number, **parts)


def epoch_of(
    processor: EpochProcessor,
    graph: Graph,
    *rows: tuple[int, int, int | None, str],
    number: int = 0,
    events: tuple[Ended, ...] = (),
    **parts: Any,
) -> EpochResult:
    added = (Added(PartitionName("news", "a", 0)), Added(PartitionName("blogs", "b", 0)))
    epoch = Epoch(number, {}, (*(added if number == 0 else ()), *events), **parts)
    return processor.process(epoch, records(*rows, graph=graph))


def rows_of(result: EpochResult, output: str) -> list[tuple[Any, ...]]:
    table = result.rows[output].drop_columns(["time"])
    return [tuple(row.values()) for row in table.to_pylist()]


ROWS = [(0, 0, 5, "one"), (1, 7, 3, "three"), (0, 1, 9, "four")]


def test_a_fork_gives_every_branch_the_same_records_in_step_order() -> None:
    steps = [mapped("up", "upper"), mapped("left", "twice", "up"), filtered("right", "up")]
    graph = build_graph(steps, FIELDS, SOURCES, ["left", "right", "up"])
    result = processed(graph, *ROWS)
    assert rows_of(result, "left") == [
        ("blogs", 0, 7, "THREETHREE"),
        ("news", 0, 0, "ONEONE"),
        ("news", 0, 1, "FOURFOUR"),
    ]
    assert rows_of(result, "right") == [("blogs", 0, 7, "THREE"), ("news", 0, 1, "FOUR")]
    assert list(result.receipt.streams) == ["up", "left", "right"]
    assert result.receipt.outputs["left"].count == 3


def test_a_union_of_branches_with_a_common_source_tells_their_records_apart_by_a_path() -> None:
    steps = [mapped("up", "upper", "news", "blogs"), mapped("two", "twice", "news", "blogs")]
    graph = build_graph([*steps, filtered("both", "two", "up")], FIELDS, SOURCES, ["both"])
    assert rows_of(processed(graph, *ROWS), "both") == [
        ("blogs", 0, 7, "0", "threethree"),
        ("blogs", 0, 7, "1", "THREE"),
        ("news", 0, 0, "0", "oneone"),
        ("news", 0, 1, "0", "fourfour"),
        ("news", 0, 1, "1", "FOUR"),
    ]


def test_a_union_of_unions_sorts_by_the_whole_path() -> None:
    steps = [
        mapped("up", "upper", "news", "blogs"),
        mapped("two", "twice", "news", "blogs"),
        mapped("both", "keep", "two", "up"),
        mapped("all", "keep", "both", "up"),
    ]
    graph = build_graph(steps, FIELDS, SOURCES, ["all"])
    found = [(path, text) for *_, path, text in rows_of(processed(graph, (0, 0, 5, "one")), "all")]
    assert found == [("0.0", "oneone"), ("1", "ONE"), ("1.0", "ONE")]


def test_sources_that_are_read_separately_are_united_in_step_order_without_a_path() -> None:
    steps = [mapped("up", "upper", "news"), mapped("two", "twice", "blogs"), filtered("both", "two", "up")]
    graph = build_graph(steps, FIELDS, SOURCES, ["both"])
    assert rows_of(processed(graph, *ROWS), "both") == [("blogs", 0, 7, "threethree"), ("news", 0, 1, "FOUR")]


def test_a_source_that_is_read_alone_has_only_its_own_fields() -> None:
    sources = {"news": SourceTime(fields=("text", "time")), "prices": SourceTime(fields=("price",))}
    graph = build_graph(
        [mapped("up", "upper", "news"), NamedStep("rest", Map(function="rules:keep"), reads=("prices",))],
        ["text", "time", "price"],
        sources,
        ["up", "rest"],
    )
    assert graph.streams["news"].schema.names == ["_rank", "_offset", "_time", "text"]
    assert graph.streams["rest"].schema.names == ["_rank", "_offset", "_time", "price"]


@pytest.mark.parametrize(
    ("name", "sources"), [("blogs", SOURCES), ("news", SOURCES), ("source", {"source": SourceTime()})]
)
def test_a_step_with_the_name_of_a_source_is_refused_also_if_no_step_reads_it(name: str, sources: Any) -> None:
    steps = [mapped(name, "upper", *[each for each in sources if each != name]), mapped("two", "twice")]
    graph, problems = check_graph(steps, FIELDS, sources)
    message = f"{name!r} is the name of a source and of a step; give the step another `name`"
    assert graph is None and [problem.message for problem in problems] == [message]


class Counts:
    """Counts records until an end of time; the output `counts` has a row for each text of the window."""

    traits = Traits(Scope.GLOBAL, ends=frozenset({"time"}), held_back=2)
    _schema = pa.schema([("_window", pa.int64()), ("word", pa.string()), ("count", pa.int64())])
    outputs: Sequence[Output] = (Output("counts", _schema, "window", ("word",)),)

    def __init__(self, schema: pa.Schema) -> None:
        self._none = schema.empty_table()
        self._seen: dict[str, int] = {}

    def process(self, table: pa.Table) -> Result:
        for text in table["text"].to_pylist():
            self._seen[text] = self._seen.get(text, 0) + 1
        return self._result(table, [])

    def ended(self, substream: Watermark) -> Result:
        rows, self._seen = [(7, text, count) for text, count in self._seen.items()], {}
        return self._result(self._none, rows)

    def _result(self, table: pa.Table, rows: Sequence[tuple[int, str, int]]) -> Result:
        made = pa.Table.from_pylist([dict(zip(self._schema.names, row, strict=True)) for row in rows], self._schema)
        windows = WindowRows(made["_window"], pa.array([8] * len(rows), pa.int64()))
        return Result(table, {"counts": made}, windows={"counts": windows})

    def save(self) -> dict[str, bytes]:
        return {}

    def restore(self, state: object) -> None: ...


class CountsConfig:
    type = "counts"

    def build(self, schema: pa.Schema) -> Counts:
        return Counts(schema)


class EndsConfig:
    """A step that reads rows of windows and notes what it was given, in order."""

    type = "ends"

    def __init__(self) -> None:
        self.seen: list[object] = []

    def build(self, schema: pa.Schema) -> Ends:
        return Ends(schema, self.seen)


class Ends:
    traits = Traits(Scope.GLOBAL, ends=frozenset({"time"}))
    outputs: Sequence[Output] = ()

    def __init__(self, schema: pa.Schema, seen: list[object]) -> None:
        self._none, self._seen = schema.empty_table(), seen

    def process(self, table: pa.Table) -> Result:
        self._seen += table["word"].to_pylist()
        return Result(table)

    def ended(self, substream: Watermark) -> Result:
        self._seen.append(substream.time)
        return Result(self._none)

    def save(self) -> dict[str, bytes]:
        return {}

    def restore(self, state: object) -> None: ...


def test_a_step_gets_the_rows_of_windows_at_the_boundary_before_its_own_end() -> None:
    ends = EndsConfig()
    graph = build_graph(
        [NamedStep("count", CountsConfig()), NamedStep("ends", ends, reads=("count.counts",))],
        FIELDS,
        SOURCES,
        ["ends"],
    )
    processor = EpochProcessor(graph)
    first = epoch_of(processor, graph, (0, 0, 5, "b"), (1, 0, 6, "a"), (0, 1, 6, "b"))
    assert rows_of(first, "ends") == [
        ("count", None, 7, '["a"]', 7, "a", 1),
        ("count", None, 7, '["b"]', 7, "b", 2),
    ]
    assert ends.seen == ["a", "b", 4]  # the watermark 6 of the sources, held back by 2
    assert first.receipt.watermarks == {"count": 4, "ends": 4}
    assert first.receipt.streams["ends"].count == 2
    assert first.rows["ends"].column_names[:4] == ["_source", "_partition", "_offset", "time"]


def test_the_rows_of_a_window_at_a_later_boundary_do_not_come_again() -> None:
    ends = EndsConfig()
    graph = build_graph(
        [NamedStep("count", CountsConfig()), NamedStep("ends", ends, reads=("count.counts",))],
        FIELDS,
        SOURCES,
        ["ends"],
    )
    processor = EpochProcessor(graph)
    epoch_of(processor, graph, (0, 0, 5, "b"), (1, 0, 6, "a"))
    again = epoch_of(processor, graph, (0, 1, 7, "c"), number=1)
    assert again.receipt.watermarks == {"count": 4, "ends": 4} and again.rows["ends"].num_rows == 1


class Fails(Counts):
    """Fails at its first end."""

    def ended(self, substream: Watermark) -> Result:
        raise KeyError("gone")


class FailsConfig:
    type = "fails"

    def build(self, schema: pa.Schema) -> Fails:
        return Fails(schema)


def test_an_error_at_the_end_of_an_epoch_names_the_step_and_the_epoch() -> None:
    graph = build_graph([NamedStep("mine", FailsConfig())], FIELDS, SOURCES)
    processor = EpochProcessor(graph)
    epoch_of(processor, graph, (0, 0, 5, "b"))
    with pytest.raises(StepFailed, match="step 'mine' failed at the end of epoch 1: KeyError: 'gone'"):
        epoch_of(processor, graph, (1, 0, 6, "a"), number=1)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (Popularity, {"by": "text", "emit": {"early": "5us"}}),
        (Popularity, {"window": {"type": "count", "size": 2}}),
        (TopK, {}),
        (Trending, {"least": 1}),
    ],
)
def test_a_step_reads_the_rows_of_every_windowed_step(config: Any, options: dict[str, Any]) -> None:
    window = {"window": {"type": "tumbling", "size": "10us"}}
    windowed = NamedStep("count", config.model_validate({"of": "text", **window, **options}))
    output = windowed.config.build(records_schema(FIELDS)).outputs[0].name
    reader = NamedStep("reader", Filter(function="rules:all"), reads=(f"count.{output}",))
    graph = build_graph([windowed, reader], FIELDS, SOURCES, [output, "reader"])
    three = [(1, offset, 13, "three") for offset in range(4)]  # trending needs a window before, and several records
    rows = [(0, 0, 1, "one"), (0, 1, 2, "two"), (0, 2, 12, "one"), *three, (1, 4, 40, "two")]
    result = processed(graph, *rows, events=(Ended(0), Ended(1)))
    made, read = result.rows[output], result.rows["reader"]
    assert made.num_rows and set(read["_source"].to_pylist()) == {"count"}
    by_text = sorted(map(str, read.select(made.column_names).to_pylist()))  # the order of a stream is that of paths
    assert by_text == sorted(map(str, made.to_pylist()))

"""The digest of rows is that of the plain definition, and depends on nothing but the rows."""

from __future__ import annotations

import random
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.row_hash import lanes_of, sums_of

from millstream.config.pipeline import NamedStep
from millstream.digests import Digest, digest_of, digests_by, row_hashes
from millstream.errors import ConfigError
from millstream.steps.contracts import Result, Scope, Traits
from millstream.steps.graph import build_graph
from millstream.steps.stateless import StatelessStep

LEAVES = [
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(5),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("ms"),
]
FEATURES = pa.list_(pa.struct([("index", pa.int32()), ("count", pa.float32())]))
NESTED = [
    *(pa.list_(kind) for kind in LEAVES if kind != pa.string_view()),
    FEATURES,
    pa.large_list(pa.string()),
    pa.list_(pa.int32(), 3),
    pa.list_(pa.list_(pa.list_(pa.string()))),
    pa.list_(pa.struct([("a", pa.string()), ("b", pa.list_(pa.float64()))])),
    pa.struct([("a", pa.struct([("b", pa.bool_())])), ("c", pa.list_(pa.int64())), ("d", pa.float16())]),
]
NULL_WORD = 0x8EBC6AF09C88C6E3 - 2**64


def a_value(kind: pa.DataType, chance: random.Random) -> Any:
    if pa.types.is_null(kind) or chance.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {field.name: a_value(field.type, chance) for field in kind}
    if pa.types.is_nested(kind):
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else chance.randrange(5)
        return [a_value(kind.value_type, chance) for _ in range(size)]
    if pa.types.is_boolean(kind):
        return chance.random() < 0.5
    if pa.types.is_floating(kind):
        number = chance.choice([0.0, -0.0, float("nan"), float("inf"), -1.5, chance.uniform(-9, 9)])
        return np.float16(number) if kind.bit_width == 16 else number
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        extra = [NULL_WORD] if kind == pa.int64() else [NULL_WORD + 2**64] if kind == pa.uint64() else []
        return chance.choice([0, 1, limits.min, limits.max, chance.randint(limits.min, limits.max), *extra])
    if pa.types.is_temporal(kind):
        return chance.randint(-(10**5), 10**5)
    size = kind.byte_width if pa.types.is_fixed_size_binary(kind) else chance.randrange(20)
    content = bytes(chance.randrange(97, 123) for _ in range(size))
    return content if "binary" in str(kind) else chance.choice([content.decode(), "ä€" * (size // 4)])


def a_column(kind: pa.DataType, rows: int, chance: random.Random) -> pa.ChunkedArray:
    """A column of slices of larger arrays, in chunks."""
    chunks = []
    while rows:
        count = chance.randint(1, rows)
        before, after = chance.randrange(9), chance.randrange(3)
        array = pa.array([a_value(kind, chance) for _ in range(before + count + after)], kind)
        chunks.append(array.slice(before, count))
        rows -= count
    return pa.chunked_array(chunks, kind)


@pytest.mark.parametrize("kind", [*LEAVES, *NESTED], ids=str)
def test_the_hashes_of_every_type_are_those_of_the_definition(kind: pa.DataType) -> None:
    chance = random.Random(str(kind))
    for _ in range(20):
        table = pa.table({"a": a_column(kind, chance.randint(1, 40), chance)})
        assert row_hashes(table).tolist() == [first for first, _ in lanes_of(table)]
        assert digest_of(table) == Digest(*sums_of(table))


def test_the_hashes_of_random_tables_are_those_of_the_definition() -> None:
    chance = random.Random(5)
    for _ in range(50):
        rows = chance.randint(1, 30)
        kinds = chance.choices([*LEAVES, *NESTED], k=chance.randint(1, 6))
        table = pa.table({f"column {n}": a_column(kind, rows, chance) for n, kind in enumerate(kinds)})
        table = table.slice(chance.randrange(rows))
        assert digest_of(table) == Digest(*sums_of(table))


def test_a_table_of_many_blocks_has_the_sum_of_its_rows() -> None:
    table = pa.table({"offset": range(5000), "text": [f"text {n}" for n in range(5000)]})
    assert digest_of(table) == Digest(*sums_of(table))


ROWS = pa.table(
    {
        "_rank": pa.array([0, 0, 1, 1, 1], pa.int32()),
        "_offset": [3, 4, 0, 1, 2],
        "text": ["a late goal", None, "", "rain", "rain"],
        "many": pa.array([[1], None, [], [None, 2], [3]], pa.list_(pa.int16())),
        "score": [0.5, None, -0.0, 0.0, float("nan")],
    }
)


def test_order_of_rows_and_columns_chunks_and_dictionaries_change_nothing() -> None:
    same = [
        ROWS.take([4, 2, 0, 3, 1]),
        ROWS.select(sorted(ROWS.column_names)),
        pa.concat_tables([ROWS.slice(3), ROWS.slice(0, 1), ROWS.slice(1, 2)]),
        ROWS.set_column(2, "text", ROWS["text"].dictionary_encode()),
        ROWS.set_column(2, "text", ROWS["text"].cast(pa.large_string())),
        ROWS.set_column(2, "text", ROWS["text"].cast(pa.string_view())),
        ROWS.set_column(3, "many", ROWS["many"].cast(pa.large_list(pa.field("each", pa.int16())))),
        ROWS.set_column(4, "score", pa.array([0.5, None, -0.0, 0.0, -float("nan")])),
        ROWS.replace_schema_metadata({"some": "thing"}),
    ]
    assert {str(digest_of(table)) for table in [ROWS, *same]} == {str(digest_of(ROWS))}


def test_every_other_change_shows() -> None:
    def with_column(name: str, values: Any) -> pa.Table:
        return ROWS.set_column(ROWS.column_names.index(name), name, values)

    other = [
        ROWS.slice(1),
        pa.concat_tables([ROWS, ROWS.slice(0, 1)]),
        ROWS.rename_columns(["_rank", "_offset", "texts", "many", "score"]),
        ROWS.drop_columns(["many"]),
        with_column("_rank", ROWS["_rank"].cast(pa.int64())),
        with_column("_offset", pa.array([4, 3, 0, 1, 2])),
        with_column("text", pa.array(["a late goal", "", None, "rain", "rain"])),
        with_column("text", pa.array(["a late goal", "", "", "rain", "rain"])),
        with_column("text", ROWS["text"].cast(pa.binary())),
        with_column("many", pa.array([[1], None, [], [None], [2, 3]], pa.list_(pa.int16()))),
        with_column("many", pa.array([[1], [], None, [None, 2], [3]], pa.list_(pa.int16()))),
        with_column("score", pa.array([0.5, None, 0.0, 0.0, float("nan")])),
        with_column("score", pa.array([0.5, 0.0, -0.0, 0.0, float("nan")])),
    ]
    digests = [str(digest_of(table)) for table in [ROWS, *other]]
    assert len(set(digests)) == len(digests)


def test_digests_of_disjoint_rows_add() -> None:
    parts = digests_by(ROWS, "_rank")
    assert parts == {0: digest_of(ROWS.slice(0, 2)), 1: digest_of(ROWS.slice(2))}
    assert parts[0] + parts[1] == digest_of(ROWS)
    assert digest_of(ROWS) - parts[0] == parts[1]
    assert digests_by(ROWS.slice(2), "_rank") == {1: parts[1]}
    assert digests_by(ROWS.slice(5), "_rank") == {} and digest_of(ROWS.slice(5)) == Digest()


PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())]))


@pytest.mark.parametrize(
    ("kind", "plain", "values"),
    [
        (pa.map_(pa.string(), pa.int32()), PAIRS, [[{"key": "x", "value": 1}], None, []]),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), pa.list_(pa.string()), [["x"], None, ["y", "x"]]),
        (pa.uuid(), pa.binary(16), [b"0" * 16, None]),
        (pa.decimal128(5, 2), pa.decimal128(5, 2), [Decimal("1.50"), None]),
    ],
    ids=str,
)
def test_a_value_has_the_hash_of_its_plain_form(kind: pa.DataType, plain: pa.DataType, values: list[Any]) -> None:
    pairs = [each and [(pair["key"], pair["value"]) for pair in each] for each in values if pa.types.is_map(kind)]
    some = pa.array(pairs or values, kind)
    assert digest_of(pa.table({"a": some})) == digest_of(pa.table({"a": pa.array(values, plain)}))
    assert digest_of(pa.table({"a": some})).count == len(values)


@pytest.mark.parametrize(
    "array",
    [
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.RunEndEncodedArray.from_arrays([1], ["a"]),
        pa.array([[1]], pa.list_view(pa.int8())),
    ],
    ids=lambda array: str(array.type),
)
def test_a_type_without_a_layout_is_refused(array: pa.Array) -> None:
    with pytest.raises(TypeError, match=r"the type .+ has no digest; make lists, structs or text of it"):
        digest_of(pa.table({"a": array}))


class Runs(StatelessStep):
    """Adds a column that no receipt could digest; the class is its own config."""

    traits = Traits(Scope.STATELESS)

    def build(self, records: pa.Schema) -> Runs:
        return self

    def process(self, records: pa.Table) -> Result:
        column = pa.array([], pa.run_end_encoded(pa.int32(), pa.string()))
        return Result(records.append_column("runs", column))


def test_a_step_that_makes_such_a_column_is_a_config_error() -> None:
    message = r"step 'tag', column 'runs': the type run_end_encoded.+ has no digest"
    with pytest.raises(ConfigError, match=message):
        build_graph([NamedStep("tag", Runs(pa.schema([])))], ["text"])


def test_a_command_that_only_reads_does_not_import_the_compiler() -> None:
    program = (
        "import sys, millstream.cli, millstream.runs.run_audit, millstream.runs.start;"
        "print([name for name in ('numba', 'llvmlite') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

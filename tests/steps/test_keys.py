"""Keys: each key has one shard, the same in every process, and a keyed step must name the column of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from millstream.config.pipeline import NamedStep
from millstream.errors import ConfigError
from millstream.state.shards import shard_of
from millstream.steps.contracts import Result, Scope, State, Step, Traits
from millstream.steps.graph import build_graph, check_graph
from millstream.steps.keys import coded, key_of, keys_of, shards_of
from millstream.steps.popularity import Popularity


def test_shards_never_change() -> None:
    keys = ["", "ann", "bob", "cleo", "dora", "ü"]
    assert [shard_of(key, 7) for key in keys] == [5, 2, 4, 4, 4, 3]
    assert [shard_of(key, 1) for key in keys] == [0] * 6


def test_keys_are_spread_evenly() -> None:
    found = [shard_of(f"key {number}", 4) for number in range(4000)]
    assert all(900 < found.count(share) < 1100 for share in range(4))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["ann", None, "bob", "ann"]),
        pa.array(["ann", None, "bob", "ann"], pa.large_string()),
        pa.array(["ann", None, "bob", "ann"]).dictionary_encode(),
        pa.chunked_array([["ann", None], [], ["bob", "ann"]]),
        pa.chunked_array([pa.array(["ann", None]).dictionary_encode(), pa.array(["bob", "ann"]).dictionary_encode()]),
    ],
    ids=lambda column: f"{type(column).__name__} of {column.type}",
)
def test_the_shards_of_a_column_are_the_shards_of_its_keys(column: Any) -> None:
    assert shards_of(column, 7).tolist() == [shard_of("ann", 7), 0, shard_of("bob", 7), shard_of("ann", 7)]


@pytest.mark.parametrize(
    "empty", [pa.array([], pa.string()), pa.chunked_array([], pa.string()), pa.nulls(0, pa.string())]
)
def test_an_empty_column_has_no_shards_and_null_keys_belong_to_shard_0(empty: Any) -> None:
    assert shards_of(empty, 3).tolist() == []
    assert shards_of(pa.nulls(2, pa.string()), 3).tolist() == [0, 0]


def test_the_key_of_several_fields_is_their_canonical_json_list() -> None:
    table = pa.table({"author": ["ann", "é", "ann", None], "country": ["nz", '"', "nz", "nz"]})
    keys = keys_of(table, ["author", "country"])
    assert keys.to_pylist() == ['["ann","nz"]', '["é","\\""]', '["ann","nz"]', None]
    assert keys_of(table, ["author"]).to_pylist() == table["author"].to_pylist()
    assert [key_of(list(row.values())) for row in table.to_pylist()] == keys.to_pylist()
    assert shards_of(keys, 7).tolist() == [shard_of(key, 7) for key in keys.to_pylist()]
    assert keys_of(table.slice(0, 0), ["author", "country"]).to_pylist() == []


def test_columns_with_dictionaries_have_the_same_keys() -> None:
    plain = pa.table({"a": ["x", None, "y", "x"], "b": ["1", "1", None, "2"]})
    coded = pa.table({name: plain[name].dictionary_encode() for name in plain.column_names})
    assert keys_of(coded, ["a", "b"]).to_pylist() == keys_of(plain, ["a", "b"]).to_pylist()
    assert keys_of(pa.concat_tables([coded, coded]), ["b", "a"]).to_pylist() == [
        '["1","x"]', None, None, '["2","x"]', '["1","x"]', None, None, '["2","x"]',
    ]  # fmt: skip


@pytest.mark.parametrize("of", ["array", "chunks", "no chunks"])
def test_a_dictionary_that_the_records_do_not_use_adds_no_keys(of: str) -> None:
    whole = pa.DictionaryArray.from_arrays([3, None, 1, 3, 4, 0], ["ann", "bob", "cleo", "dora", None])
    column = {"array": whole[1:], "chunks": pa.chunked_array([whole[1:3], whole[3:5]]), "no chunks": None}[of]
    found = coded(pa.chunked_array([], whole.type) if column is None else column)
    expected = {"array": ["bob", "dora", "ann"], "chunks": ["bob", "dora"], "no chunks": []}[of]
    assert found.dictionary.to_pylist() == expected
    assert found.to_pylist() == ([] if column is None else column.to_pylist())


def test_a_windowed_step_holds_the_keys_of_its_records_only() -> None:
    schema = pa.schema([("_rank", pa.int32()), ("_offset", pa.int64()), ("_time", pa.int64()), ("id", pa.string())])
    options = {"of": "id", "by": "id", "window": {"type": "tumbling", "size": "10us"}, "max_open": 64}
    step = Popularity.model_validate(options).build(schema)
    ids = pa.DictionaryArray.from_arrays([1, 1], [f"key {number}" for number in range(200)])
    step.process(pa.table([[0, 0], [0, 1], [5, 6], ids], names=schema.names))  # a second key in a shard is an error
    assert list(step.save()) == ["key 1"]


class KeyedStep:
    outputs = ()

    def __init__(self, key: str | None) -> None:
        self.traits = Traits(Scope.KEYED, key=key)

    def process(self, records: pa.Table) -> Result:
        return Result(records)

    def ended(self, substream: Any) -> Result:
        raise AssertionError

    def save(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        pass


@dataclass(frozen=True)
class Config:
    key: str | None
    type: str = "keyed"

    def build(self, records: pa.Schema) -> Step:
        return KeyedStep(self.key)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            None,
            "step 'follow': a keyed step must name the column of its keys; write Traits(Scope.KEYED, key=...)",
        ),
        ("autor", "step 'follow': `Traits.key`: the records have no column 'autor' here; did you mean `author`?"),
        ("_offset", "step 'follow': `Traits.key`: keys are text, but '_offset' is int64; name a text column"),
    ],
)
def test_a_keyed_step_without_a_text_column_as_its_key_is_refused(key: str | None, message: str) -> None:
    graph, problems = check_graph([NamedStep("follow", Config(key))], ["author", "text"])
    assert graph is None and problems[0].message.startswith(message)
    with pytest.raises(ConfigError) as refused:
        build_graph([NamedStep("follow", Config(key))], ["author", "text"])
    assert str(refused.value).startswith(message)


def test_a_keyed_step_with_a_text_column_as_its_key_is_built() -> None:
    assert build_graph([NamedStep("follow", Config("author"))], ["author"]).steps[0].traits.key == "author"

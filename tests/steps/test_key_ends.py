"""Per_key with `ended`: each substream of a key ends once, wherever the watermark and the batches are."""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from millstream.errors import ConfigError, StepFailed
from millstream.steps.checks import check_step
from millstream.steps.contracts import FindsLateRecords, Step
from millstream.steps.per_key import PerKey
from millstream.substreams import Watermark

SCHEMA = pa.schema(
    [
        ("_rank", pa.int64()),
        ("_offset", pa.int64()),
        ("_time", pa.int64()),
        ("author", pa.string()),
        ("country", pa.string()),
    ]
)


def count(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
    if record["country"] == "forget":
        return {}, None
    return {}, (state or 0) + 1


def close(key: Mapping[str, str], state: Any) -> dict[str, str] | None:
    return {"texts": str(state)} if state < 9 else None


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("rules")
    module.__dict__.update(count=count, close=close)
    monkeypatch.setitem(sys.modules, "rules", module)
    return module


OPTIONS = {"key": "author", "function": "rules:count", "ended": "rules:close", "makes": ["texts"]}


def build(**options: Any) -> Step:
    return PerKey.model_validate({**OPTIONS, **options}).build(SCHEMA)


def records(*rows: tuple[int | None, str | None], country: str = "nz") -> pa.Table:
    times, authors = [time for time, _ in rows], [author for _, author in rows]
    position = {"_rank": [0] * len(rows), "_offset": range(len(rows)), "_time": times}
    return pa.table({**position, "author": authors, "country": [country] * len(rows)}, schema=SCHEMA)


def ended(step: Step, watermark: int | None) -> list[tuple[Any, ...]]:
    """The rows at this watermark: the time of the first record in microseconds, the author, the number of texts."""
    rows = step.ended(Watermark(watermark)).outputs.get("ended")
    if rows is None:
        return []
    starts = rows["_window"].cast(pa.int64()).to_pylist()
    return list(zip(starts, rows["author"].to_pylist(), rows["texts"].to_pylist(), strict=True))


def test_a_key_ends_when_it_was_idle() -> None:
    step = build(idle="10us")
    step.process(records((1, "bob"), (2, "ann"), (9, "ann")))
    assert ended(step, 11) == []
    assert ended(step, 12) == [(1, "bob", "1")]
    assert ended(step, 19) == []
    assert ended(step, 20) == [(2, "ann", "2")]
    assert ended(step, 100) == []
    assert dict(step.save()) == {}


def test_a_key_ends_within_a_time_of_its_first_record() -> None:
    step = build(within="10us")
    step.process(records((2, "ann"), (9, "ann"), (12, "ann")))
    assert ended(step, 12) == []
    assert ended(step, 13) == [(2, "ann", "3")]


def test_a_record_after_the_end_begins_the_next_substream_wherever_the_watermark_is() -> None:
    for watermark in (0, 12, 13):
        step = build(idle="10us")
        step.process(records((2, "ann")))
        rows = ended(step, watermark)
        step.process(records((13, "ann"), (14, "ann")))
        assert rows + ended(step, 24) == [(2, "ann", "1")]
        assert ended(step, None) == [(13, "ann", "2")]


def test_without_a_time_keys_end_with_the_sources() -> None:
    step = build()
    step.process(records((None, "bob"), (5, "ann"), (900, "ann")))
    assert ended(step, 10_000) == []
    assert ended(step, None) == [(None, "bob", "1"), (5, "ann", "2")]
    assert dict(step.save()) == {}


def test_the_end_of_the_sources_ends_each_key_once() -> None:
    step = build(idle="10us")
    step.process(records((1, "ann"), (50, "ann"), (3, "bob")))
    assert ended(step, None) == [(1, "ann", "1"), (3, "bob", "1"), (50, "ann", "1")]
    assert ended(step, None) == []


def test_a_record_of_a_substream_that_has_ended_is_late() -> None:
    step = build(idle="10us")
    step.process(records((1, "ann"), (50, "bob")))
    assert ended(step, 45) == [(1, "ann", "1")]
    result = step.process(records((34, "ann"), (35, "ann"), (2, "bob")))
    assert result.outputs["late"].select(["_offset", "_time", "author"]).to_pylist() == [
        {"_offset": 0, "_time": 34, "author": "ann"}
    ]
    assert result.records["_offset"].to_pylist() == [1, 2]
    assert ended(step, None) == [(35, "ann", "1"), (50, "bob", "2")]


def test_a_restored_step_knows_the_watermark_and_the_ends() -> None:
    step, other = build(idle="10us"), build(idle="10us")
    step.process(records((1, "ann"), (9, "bob")))
    step.ended(Watermark(15))
    other.restore(step.save())
    assert isinstance(other, FindsLateRecords)
    other.resume(Watermark(15))
    assert other.process(records((3, "ann"))).outputs["late"].num_rows == 1
    assert ended(other, 20) == [(9, "bob", "1")]


@pytest.mark.parametrize("bound", [{"idle": "10us"}, {"within": "10us"}, {"idle": "10us", "within": "15us"}])
def test_a_record_before_the_end_of_a_substream_that_waits_belongs_to_it(bound: dict[str, str]) -> None:
    step = build(**bound)
    step.process(records((10, "ann")))
    step.process(records((30, "ann"), country="forget"))
    step.process(records((10, "ann"), (20, "ann"), (10, "ann")))
    step.process(records((31, "ann")))
    assert ended(step, None) == [(10, "ann", "4"), (31, "ann", "1")]


@pytest.mark.parametrize("bound", [{"idle": "10us"}, {"within": "10us"}, {"idle": "6us", "within": "10us"}])
def test_every_row_has_an_identity_of_its_own(bound: dict[str, str]) -> None:
    dice, step = random.Random(7), build(**bound)
    rows: list[tuple[Any, ...]] = []
    for watermark in range(0, 1200, 3):
        times = [watermark + dice.randrange(40) for _ in range(4)]
        country = dice.choice(["nz", "nz", "forget"])
        step.process(records(*((time, dice.choice("abcdef")) for time in times), country=country))
        rows += ended(step, watermark)
    rows += ended(step, None)
    assert len({row[:2] for row in rows}) == len(rows) > 50


def test_a_state_of_none_leaves_nothing_to_end() -> None:
    step = build(idle="10us")
    step.process(records((1, "ann"), (2, "bob")))
    step.process(records((3, "ann"), country="forget"))
    assert ended(step, None) == [(2, "bob", "1")]


def test_a_function_may_make_no_row() -> None:
    step = build(idle="10us")
    step.process(records(*[(1, "ann")] * 9, (2, "bob")))
    assert ended(step, None) == [(2, "bob", "1")]


def test_records_without_a_time_are_rejected_if_the_end_depends_on_time() -> None:
    result = build(idle="10us").process(records((None, "ann"), (1, None)))
    assert result.outputs["rejects"]["reason"].to_pylist() == ["no time", "no author"]


def test_a_key_of_several_fields_has_a_column_for_each() -> None:
    step = build(key=["author", "country"], idle="10us")
    step.process(records((1, "ann")))
    step.process(records((1, "ann"), country="fr"))
    assert sorted(step.save()) == ['["ann","fr"]', '["ann","nz"]']
    rows = step.ended(Watermark(None)).outputs["ended"].drop_columns(["_window"]).to_pylist()
    assert rows == [{"author": "ann", "country": name, "texts": "1"} for name in ("fr", "nz")]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("3", r"function rules:close, for the key {'author': 'ann'}: it returned '3' \(str\), not a dict of fields"),
        ({"text": "3"}, "it returned a field 'text', which is not in `makes`"),
        ({"texts": 3}, r"it returned 3 \(int\) for 'texts'; fields are text"),
    ],
)
def test_a_wrong_value_stops_the_run(returned: Any, message: str, rules: types.ModuleType) -> None:
    rules.__dict__["close"] = lambda key, state: returned
    step = build(idle="10us")
    step.process(records((1, "ann")))
    with pytest.raises(StepFailed, match=message):
        step.ended(Watermark(None))


def test_an_error_in_the_function_names_the_key(rules: types.ModuleType) -> None:
    rules.__dict__["close"] = lambda key, state: state["texts"]
    step = build(idle="10us")
    step.process(records((1, "ann")))
    with pytest.raises(StepFailed, match=r"for the key {'author': 'ann'}: it raised TypeError"):
        step.ended(Watermark(None))


@pytest.mark.parametrize("options", [{"idle": "1s"}, {"within": "1s"}, {"makes": ["texts"]}])
def test_options_of_the_end_without_its_function_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="is for the function of `ended`"):
        PerKey.model_validate({"key": "author", "function": "rules:count", **options})


def test_a_field_of_the_key_cannot_be_made_again() -> None:
    with pytest.raises(ConfigError, match="`makes`: 'author' is a field of the key"):
        build(makes=["author"])


def test_children_of_records_in_time_are_passed_on_and_late_records_have_none(rules: types.ModuleType) -> None:
    rules.__dict__["twice"] = lambda record, state: ([{}, {"country": "au"}], (state or 0) + 1)
    step = build(function="rules:twice", within="6us", children=True)
    made = step.process(records((1, "ann"), (2, "bob"))).records
    assert made.select(["_offset", "country"]).to_pylist() == [
        {"_offset": offset, "country": country} for offset in (0, 1) for country in ("nz", "au")
    ]
    assert ended(step, 20) == [(1, "ann", "1"), (2, "bob", "1")]
    result = step.process(records((3, "ann"), (30, "ann")))
    assert result.records["_offset"].to_pylist() == [1, 1]
    assert result.records["_path"].to_pylist() == [bytes(4), bytes([0, 0, 0, 1])]
    assert result.outputs["late"]["_offset"].to_pylist() == [0]


RULES = """
def count(record, state):
    return {}, (state or 0) + 1

def close(key, state):
    return {"texts": str(state)}
"""


@pytest.mark.parametrize(
    "options", [{"idle": "4us"}, {"within": "6us", "key": ["author", "country"]}, {"idle": "3us", "within": "9us"}]
)
def test_per_key_with_ends_passes_the_battery(
    options: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ending_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ending_rules", raising=False)
    dice = random.Random(7)
    rows = [
        (dice.choice([None, number, number, number - 9]), dice.choice(["ann", "bob", "cleo", None]))
        for number in range(80)
    ]
    named = {"function": "ending_rules:count", "ended": "ending_rules:close"}
    check_step(PerKey.model_validate({**OPTIONS, **named, **options}), records(*rows))

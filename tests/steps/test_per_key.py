"""Per_key: what a function gets and may return, what is remembered of each key, and what becomes of errors."""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from millstream.errors import ConfigError, MillstreamError, StepFailed
from millstream.steps.checks import check_step
from millstream.steps.contracts import Scope, Step
from millstream.steps.per_key import PerKey

SCHEMA = pa.schema(
    [
        ("_rank", pa.int64()),
        ("_offset", pa.int64()),
        ("_time", pa.int64()),
        ("author", pa.string()),
        ("text", pa.string()),
        ("score", pa.float64()),
    ]
)


def records(*rows: tuple[str | None, str | None]) -> pa.Table:
    """Records of an author and a text each, at offsets from 10."""
    positions = {"_rank": [0] * len(rows), "_offset": range(10, 10 + len(rows)), "_time": [0] * len(rows)}
    authors, texts = [author for author, _ in rows], [text for _, text in rows]
    return pa.table({**positions, "author": authors, "text": texts, "score": [0.5] * len(rows)}, schema=SCHEMA)


Following = Callable[..., Step]


@pytest.fixture(params=["memory", "rocksdb"])
def following(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Following:
    """Makes a step of a function, with its state in memory or in RocksDB."""
    module = types.ModuleType("rules")
    monkeypatch.setitem(sys.modules, "rules", module)

    def made(called: Callable[[Any, Any], Any], **options: Any) -> Step:
        module.__dict__["chosen"] = called
        given = {"key": "author", "function": "rules:chosen", "store": request.param, **options}
        return PerKey.model_validate(given).build(SCHEMA)

    return made


def count(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
    if record["text"] == "bad":
        raise ValueError("bad text")
    if record["text"] == "forget":
        return {}, None
    return {"before": str(state or 0)}, (state or 0) + 1


def said(step: Step, *rows: tuple[str | None, str | None]) -> list[str | None]:
    before: list[str | None] = step.process(records(*rows)).records["before"].to_pylist()
    return before


# What is remembered


def test_each_key_has_a_state_of_its_own_that_lasts_over_batches(following: Following) -> None:
    step = following(count, adds=["before"])
    assert said(step, ("ann", "x"), ("bob", "x"), ("ann", "x")) == ["0", "0", "1"]
    assert said(step, ("bob", "x"), ("ann", "x"), ("", "x")) == ["1", "2", "0"]
    assert dict(step.save()) == {"ann": b"3", "bob": b"2", "": b"1"}


def test_a_state_of_none_forgets_the_key(following: Following) -> None:
    step = following(count, adds=["before"])
    assert said(step, ("ann", "x"), ("ann", "forget"), ("ann", "x")) == ["0", None, "0"]
    step.process(records(("ann", "forget"), ("bob", "forget")))
    assert dict(step.save()) == {}


def test_a_state_is_saved_and_restored_with_its_type(following: Following) -> None:
    states = iter([{"b": [1, 2.0, "ü", None], "a": {"true": True}}, 0, False, "", [], {}])
    seen: list[Any] = []

    def walk(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
        seen.append(state)
        return {}, next(states)

    step = following(walk)
    for _ in range(6):
        step.process(records(("ann", "x")))
        saved = step.save()
        step.restore({})
        step.restore(saved)
    assert repr(seen) == repr([None, {"a": {"true": True}, "b": [1, 2.0, "ü", None]}, 0, False, "", []])
    assert dict(step.save()) == {"ann": b"{}"}


def test_equal_states_have_equal_bytes(following: Following) -> None:
    step = following(lambda record, state: ({}, {"a": 1, "b": 2} if record["text"] == "x" else {"b": 2, "a": 1}))
    step.process(records(("ann", "x"), ("bob", "y")))
    saved = dict(step.save())
    assert saved["ann"] == saved["bob"]


def test_what_a_function_does_to_its_arguments_reaches_nothing(following: Following) -> None:
    def careless(record: dict[str, Any], state: Any) -> tuple[dict[str, str], Any]:
        seen = state or []
        seen.append(record.pop("text"))
        if seen[-1] == "bad":
            raise ValueError("bad text")
        return {}, seen

    step = following(careless, on_error="reject")
    given = records(("ann", "x"), ("ann", "bad"), ("ann", "y"))
    assert step.process(given).records["text"].to_pylist() == ["x", "y"]
    assert dict(step.save()) == {"ann": b'["x","y"]'}


def test_nothing_is_called_for_an_empty_batch(following: Following) -> None:
    def never(record: Any, state: Any) -> Any:
        raise AssertionError

    step = following(never, adds=["before"])
    made = step.process(SCHEMA.empty_table()).records.schema
    assert made == pa.schema([*SCHEMA, pa.field("before", pa.string())]) == step.ended(None).records.schema


# Errors


def test_records_without_a_key_are_rejected_whatever_becomes_of_errors(following: Following) -> None:
    for on_error in ("fail", "reject"):
        step = following(count, adds=["before"], on_error=on_error, name="follow")
        result = step.process(records((None, "x"), ("ann", "x"), (None, "bad")))
        assert result.records["author"].to_pylist() == ["ann"]
        rejects = result.outputs["rejects"].select(["_offset", "step", "reason"]).to_pylist()
        assert [tuple(row.values()) for row in rejects] == [(10, "follow", "no author"), (12, "follow", "no author")]


def test_a_record_that_raises_is_rejected_and_leaves_the_state(following: Following) -> None:
    step = following(count, adds=["before"], on_error="reject")
    result = step.process(records(("ann", "x"), ("ann", "bad"), (None, "x"), ("ann", "x")))
    assert result.records["before"].to_pylist() == ["0", "1"]
    assert result.outputs["rejects"]["reason"].to_pylist() == ["ValueError: bad text", "no author"]


def test_a_record_that_raises_stops_the_run_by_default(following: Following) -> None:
    told = r"step 'follow', function rules:chosen: it raised ValueError: bad text; mend it, or put such records"
    with pytest.raises(StepFailed, match=told) as failed:
        following(count, adds=["before"], name="follow").process(records(("ann", "x"), ("ann", "bad")))
    assert failed.value.offset == 11


def test_a_place_that_fails_is_not_a_records_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rules", types.SimpleNamespace(count=count))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    config = PerKey(key="author", function="rules:count", adds=("before",), on_error="reject", store="rocksdb")
    with pytest.raises(
        MillstreamError, match=r"state by key in RocksDB: .*No such file.*; make room there, or set TMPDIR"
    ):
        config.build(SCHEMA).process(records(("ann", "x")))


class Thing:
    def __repr__(self) -> str:
        return "a thing"


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ({"text": "y"}, r"it returned {'text': 'y'} \(dict\), not a pair: a dict of fields, and the new state"),
        (None, r"it returned None \(NoneType\), not a pair"),
        (({}, 1, 2), "not a pair"),
        (("y", 1), r"it returned 'y' \(str\), not a dict of the fields to replace or add"),
        (({"before": 3}, 1), r"it returned 3 \(int\) for 'before'; fields are text"),
        (({"beforre": "3"}, 1), "a field 'beforre', which the records do not have; declare it in `adds`"),
        (({"score": 0.7}, 1), "it changed 'score', which is double; it may replace text fields only"),
        (({}, Thing()), r"returned as state a thing \(Thing\), which is no JSON value .*; numbers, text, lists, dicts"),
        (({}, {1, 2}), r"returned as state {1, 2} \(set\), which is no JSON value"),
        (({}, float("nan")), r"returned as state nan \(float\), which is no JSON value"),
        (({}, "\ud800"), "which is no JSON value"),
        (({}, (1, 2)), r"state \(1, 2\) \(tuple\), which as JSON would come back as \[1, 2\] \(list\); return what"),
        (({}, {1: "a"}), r"state {1: 'a'} \(dict\), which as JSON would come back as {'1': 'a'} \(dict\)"),
    ],
    ids=str,
)
def test_a_function_that_returns_what_it_may_not_fails(returned: Any, told: str, following: Following) -> None:
    step = following(lambda record, state: returned, adds=["before"], on_error="reject")
    with pytest.raises(StepFailed, match=told) as failed:
        step.process(records(("ann", "x")))
    assert (failed.value.rank, failed.value.offset) == (0, 10)


# Configs


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"key": "autor"}, "step 'per_key', `key`: the records have no column 'autor' here; did you mean 'author'?"),
        ({"key": "score"}, "step 'per_key', `key`: keys are text, but 'score' is double; name a text column"),
        ({"adds": ["text"]}, "step 'per_key', `adds`: the records have a field 'text' already"),
        ({"function": "rules:chosn"}, "step 'per_key', `function`: rules has no 'chosn'; did you mean 'chosen'?"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_is_refused(options: dict[str, Any], told: str, following: Following) -> None:
    with pytest.raises(ConfigError) as refused:
        following(count, **options)
    assert told in str(refused.value)


def test_another_place_for_its_state_is_refused() -> None:
    with pytest.raises(ValidationError, match="'memory' or 'rocksdb'"):
        PerKey.model_validate({"key": "author", "function": "rules:chosen", "store": "disk"})


def test_rocksdb_that_cannot_be_imported_is_told_with_what_to_do(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    monkeypatch.delitem(sys.modules, "millstream.state.rocks", raising=False)
    with pytest.raises(ConfigError, match=r"step 'per_key', `store`: rocksdb cannot be used \(.*rocksdict"):
        following(count, store="rocksdb")
    following(count, store="memory")


def test_traits_are_those_of_a_step_with_state_by_key(following: Following) -> None:
    traits = following(count, deterministic=False).traits
    assert (traits.scope, traits.key, traits.ordered, traits.deterministic) == (Scope.KEYED, "author", True, False)


RULES = """
def follow(record, state):
    if record["text"] == "bad":
        raise ValueError("bad text")
    if record["text"] == "forget":
        return {"last": "forgotten"}, None
    state = state or {"seen": 0, "last": None}
    return {"last": state["last"]}, {"seen": (state["seen"] + 1) % 100, "last": record["text"]}
"""


@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_it_passes_the_battery(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "following_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "following_rules", raising=False)
    dice = random.Random(4)
    config = PerKey.model_validate(
        {"key": "author", "function": "following_rules:follow", "adds": ["last"], "on_error": "reject", "store": store}
    )
    authors, texts = ["ann", "bob", "cleo", "dan", None], ["one", "two", "bad", "forget", None]
    check_step(config, records(*((dice.choice(authors), dice.choice(texts)) for _ in range(80))))

"""Per_key: the arguments and return values of a user's function, the state of each key, and errors."""

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
    """Return records with these authors and texts, at offsets from 10 on."""
    positions = {"_rank": [0] * len(rows), "_offset": range(10, 10 + len(rows)), "_time": [0] * len(rows)}
    authors, texts = [author for author, _ in rows], [text for _, text in rows]
    return pa.table({**positions, "author": authors, "text": texts, "score": [0.5] * len(rows)}, schema=SCHEMA)


BuildStep = Callable[..., Step]


@pytest.fixture(params=["memory", "rocksdb"])
def build_step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BuildStep:
    """Build a step with a function, with the states in memory or in RocksDB."""
    module = types.ModuleType("rules")
    monkeypatch.setitem(sys.modules, "rules", module)

    def build(called: Callable[[Any, Any], Any], **options: Any) -> Step:
        module.__dict__["chosen"] = called
        given = {"key": "author", "function": "rules:chosen", "store": request.param, **options}
        return PerKey.model_validate(given).build(SCHEMA)

    return build


def count(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
    if record["text"] == "bad":
        raise ValueError("bad text")
    if record["text"] == "forget":
        return {}, None
    return {"before": str(state or 0)}, (state or 0) + 1


def seen_before(step: Step, *rows: tuple[str | None, str | None]) -> list[str | None]:
    before: list[str | None] = step.process(records(*rows)).records["before"].to_pylist()
    return before


# States


def test_each_key_has_its_own_state_that_lasts_over_batches(build_step: BuildStep) -> None:
    step = build_step(count, adds=["before"])
    assert seen_before(step, ("ann", "x"), ("bob", "x"), ("ann", "x")) == ["0", "0", "1"]
    assert seen_before(step, ("bob", "x"), ("ann", "x"), ("", "x")) == ["1", "2", "0"]
    assert dict(step.save()) == {"ann": b"3", "bob": b"2", "": b"1"}


def test_a_state_of_none_deletes_the_key(build_step: BuildStep) -> None:
    step = build_step(count, adds=["before"])
    assert seen_before(step, ("ann", "x"), ("ann", "forget"), ("ann", "x")) == ["0", None, "0"]
    step.process(records(("ann", "forget"), ("bob", "forget")))
    assert dict(step.save()) == {}


def test_a_state_is_saved_and_restored_with_its_type(build_step: BuildStep) -> None:
    states = iter([{"b": [1, 2.0, "ü", None], "a": {"true": True}}, 0, False, "", [], {}])
    seen: list[Any] = []

    def walk(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
        seen.append(state)
        return {}, next(states)

    step = build_step(walk)
    for _ in range(6):
        step.process(records(("ann", "x")))
        saved = step.save()
        step.restore({})
        step.restore(saved)
    assert repr(seen) == repr([None, {"a": {"true": True}, "b": [1, 2.0, "ü", None]}, 0, False, "", []])
    assert dict(step.save()) == {"ann": b"{}"}


def test_equal_states_have_equal_bytes(build_step: BuildStep) -> None:
    step = build_step(lambda record, state: ({}, {"a": 1, "b": 2} if record["text"] == "x" else {"b": 2, "a": 1}))
    step.process(records(("ann", "x"), ("bob", "y")))
    saved = dict(step.save())
    assert saved["ann"] == saved["bob"]


def test_changes_of_the_arguments_do_not_reach_the_records_or_the_state(build_step: BuildStep) -> None:
    def careless(record: dict[str, Any], state: Any) -> tuple[dict[str, str], Any]:
        seen = state or []
        seen.append(record.pop("text"))
        if seen[-1] == "bad":
            raise ValueError("bad text")
        return {}, seen

    step = build_step(careless, on_error="reject")
    given = records(("ann", "x"), ("ann", "bad"), ("ann", "y"))
    assert step.process(given).records["text"].to_pylist() == ["x", "y"]
    assert dict(step.save()) == {"ann": b'["x","y"]'}


def test_the_function_is_not_called_for_an_empty_batch(build_step: BuildStep) -> None:
    def never(record: Any, state: Any) -> Any:
        raise AssertionError

    step = build_step(never, adds=["before"])
    made = step.process(SCHEMA.empty_table()).records.schema
    assert made == pa.schema([*SCHEMA, pa.field("before", pa.string())]) == step.ended(None).records.schema


# Children


def gather(record: Mapping[str, Any], state: Any) -> tuple[list[dict[str, str]], Any]:
    """Passes on each author's texts in pairs, together."""
    if record["text"] == "bad":
        raise ValueError("bad text")
    if state is None:
        return [], record["text"]
    return [{"text": state}, {"before": state}], None


def test_children_are_passed_on_instead_of_their_record(build_step: BuildStep) -> None:
    step = build_step(gather, adds=["before"], children=True)
    made = step.process(records(("ann", "a"), ("bob", "b"), ("ann", "c"))).records
    rows = made.select(["_rank", "_offset", "_path", "author", "text", "before"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 12, bytes(4), "ann", "a", None),
        (0, 12, bytes([0, 0, 0, 1]), "ann", "c", "a"),
    ]
    assert dict(step.save()) == {"bob": b'"b"'}


def test_a_step_that_makes_children_has_their_columns_without_records(build_step: BuildStep) -> None:
    step = build_step(gather, adds=["before"], children=True)
    made = step.process(SCHEMA.empty_table()).records.schema
    assert made == pa.schema([*SCHEMA, pa.field("_path", pa.binary()), pa.field("before", pa.string())])
    assert made == step.ended(None).records.schema == step.process(records(("ann", "a"))).records.schema


def test_a_rejected_record_has_no_children(build_step: BuildStep) -> None:
    step = build_step(gather, adds=["before"], children=True, on_error="reject")
    result = step.process(records(("ann", "a"), ("ann", "bad"), ("ann", "c"), (None, "d")))
    assert result.records["text"].to_pylist() == ["a", "c"]
    assert result.outputs["rejects"]["reason"].to_pylist() == ["ValueError: bad text", "no author"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (({}, 1), r"it returned {} \(dict\), not a list with a dict for each child"),
        (["x"], r"it returned \['x'\] \(list\), not a pair: a list of children, and the new state"),
        ((["x"], 1), r"it returned 'x' \(str\), not a dict of the fields to replace or add"),
    ],
)
def test_a_function_that_returns_no_list_of_children_stops_the_run(
    returned: Any, message: str, build_step: BuildStep
) -> None:
    with pytest.raises(StepFailed, match=message):
        build_step(lambda record, state: returned, children=True).process(records(("ann", "x")))


# Errors


def test_records_without_a_key_are_rejected_for_each_on_error(build_step: BuildStep) -> None:
    for on_error in ("fail", "reject"):
        step = build_step(count, adds=["before"], on_error=on_error, name="follow")
        result = step.process(records((None, "x"), ("ann", "x"), (None, "bad")))
        assert result.records["author"].to_pylist() == ["ann"]
        rejects = result.outputs["rejects"].select(["_offset", "step", "reason"]).to_pylist()
        assert [tuple(row.values()) for row in rejects] == [(10, "follow", "no author"), (12, "follow", "no author")]


def test_a_record_with_an_error_is_rejected_and_does_not_change_the_state(build_step: BuildStep) -> None:
    step = build_step(count, adds=["before"], on_error="reject")
    result = step.process(records(("ann", "x"), ("ann", "bad"), (None, "x"), ("ann", "x")))
    assert result.records["before"].to_pylist() == ["0", "1"]
    assert result.outputs["rejects"]["reason"].to_pylist() == ["ValueError: bad text", "no author"]


def test_a_record_with_an_error_stops_the_run_by_default(build_step: BuildStep) -> None:
    message = r"step 'follow', function rules:chosen: it raised ValueError: bad text; mend it, or put such records"
    with pytest.raises(StepFailed, match=message) as failed:
        build_step(count, adds=["before"], name="follow").process(records(("ann", "x"), ("ann", "bad")))
    assert failed.value.offset == 11


def test_an_error_of_the_state_store_rejects_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rules", types.SimpleNamespace(count=count))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    config = PerKey(key="author", function="rules:count", adds=("before",), on_error="reject", store="rocksdb")
    with pytest.raises(
        MillstreamError, match=r"state by key in RocksDB: .*No such file.*; free disk space there, or set TMPDIR"
    ):
        config.build(SCHEMA).process(records(("ann", "x")))


class Thing:
    def __repr__(self) -> str:
        return "a thing"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"text": "y"}, r"it returned {'text': 'y'} \(dict\), not a pair: a dict of fields, and the new state"),
        (None, r"it returned None \(NoneType\), not a pair"),
        (({}, 1, 2), "not a pair"),
        (("y", 1), r"it returned 'y' \(str\), not a dict of the fields to replace or add"),
        (({"before": 3}, 1), r"it returned 3 \(int\) for 'before'; fields are text"),
        (({"beforre": "3"}, 1), "a field 'beforre', which the records do not have; declare it in `adds`"),
        (({"score": 0.7}, 1), "it changed 'score', which is double; it may replace text fields only"),
        (({}, Thing()), r"returned as state a thing \(Thing\), which is not a JSON value .*; JSON values are"),
        (({}, {1, 2}), r"returned as state {1, 2} \(set\), which is not a JSON value"),
        (({}, float("nan")), r"returned as state nan \(float\), which is not a JSON value"),
        (({}, "\ud800"), "which is not a JSON value"),
        (({}, (1, 2)), r"state \(1, 2\) \(tuple\), which JSON turns into \[1, 2\] \(list\); return a"),
        (({}, {1: "a"}), r"state {1: 'a'} \(dict\), which JSON turns into {'1': 'a'} \(dict\)"),
    ],
    ids=str,
)
def test_a_function_that_returns_a_wrong_value_stops_the_run(
    returned: Any, message: str, build_step: BuildStep
) -> None:
    step = build_step(lambda record, state: returned, adds=["before"], on_error="reject")
    with pytest.raises(StepFailed, match=message) as failed:
        step.process(records(("ann", "x")))
    assert (failed.value.rank, failed.value.offset) == (0, 10)


# Configs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "autor"}, "step 'per_key', `key`: the records have no column 'autor' here; did you mean `author`?"),
        ({"key": "score"}, "step 'per_key', `key`: keys are text, but 'score' is double; name a text column"),
        ({"adds": ["text"]}, "step 'per_key', `adds`: the records have a field 'text' already"),
        ({"function": "rules:chosn"}, "step 'per_key', `function`: rules has no 'chosn'; did you mean `chosen`?"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_the_records_is_refused(
    options: dict[str, Any], message: str, build_step: BuildStep
) -> None:
    with pytest.raises(ConfigError) as refused:
        build_step(count, **options)
    assert message in str(refused.value)


def test_an_unknown_store_is_refused() -> None:
    with pytest.raises(ValidationError, match="'memory' or 'rocksdb'"):
        PerKey.model_validate({"key": "author", "function": "rules:chosen", "store": "disk"})


def test_the_traits_say_keyed_by_the_configured_field(build_step: BuildStep) -> None:
    traits = build_step(count, deterministic=False).traits
    assert (traits.scope, traits.key, traits.ordered, traits.deterministic) == (Scope.KEYED, "author", True, False)


RULES = """
def follow(record, state):
    if record["text"] == "bad":
        raise ValueError("bad text")
    if record["text"] == "forget":
        return {"last": "forgotten"}, None
    state = state or {"seen": 0, "last": None}
    return {"last": state["last"]}, {"seen": (state["seen"] + 1) % 100, "last": record["text"]}

def children(record, state):
    change, state = follow(record, state)
    return [change] * (len(record["author"]) - 2), state
"""


@pytest.mark.parametrize(("function", "store"), [("follow", "memory"), ("follow", "rocksdb"), ("children", "memory")])
def test_per_key_passes_the_battery(function: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "following_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "following_rules", raising=False)
    dice = random.Random(4)
    config = PerKey.model_validate(
        {"key": "author", "function": f"following_rules:{function}", "adds": ["last"], "on_error": "reject",
         "store": store, "children": function == "children"}
    )  # fmt: skip
    authors, texts = ["al", "bob", "cleo", "dan", None], ["one", "two", "bad", "forget", None]
    check_step(config, records(*((dice.choice(authors), dice.choice(texts)) for _ in range(80))))

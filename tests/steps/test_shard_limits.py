"""Limits, sketches and evictions of keyed steps: the same with the keys in one process and divided between two."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.errors import StepFailed
from millstream.state.keyed_state import Entries, ShardedSnapshot
from millstream.steps.contracts import JoinStep, Result, Step, StepConfig
from millstream.steps.join import Join
from millstream.steps.keys import keys_of, shards_of
from millstream.steps.popularity import Popularity
from millstream.steps.rising_words import Trending
from millstream.steps.top_k import TopK
from millstream.substreams import Watermark

SHARDS = 4
NOTHING = ShardedSnapshot([Entries({}) for _ in range(SHARDS)])
SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("_rank", "_offset", "_time")]
    + [(name, pa.string()) for name in ("predicted", "country", "city", "text")]
)
BY = ["country", "city"]


def records(seed: int, count: int, start: int) -> pa.Table:
    dice = random.Random(seed)
    offsets = range(start, start + count)
    return pa.table(
        {
            "_rank": [0] * count,
            "_offset": offsets,
            "_time": [3 * offset + dice.randint(0, 20) for offset in offsets],
            "predicted": [dice.choice("abcdefgh") for _ in offsets],
            "country": [dice.choice("xyz") for _ in offsets],
            "city": [str(dice.randrange(5)) for _ in offsets],
            "text": [" ".join(f"w{int(dice.paretovariate(0.5))}" for _ in range(4)) for _ in offsets],
        },
        schema=SCHEMA,
    )


def share(table: pa.Table, by: Sequence[str], owner: int | None) -> np.ndarray[Any, Any]:
    """The records whose keys belong to an owner of the even or the odd shards; all of them without an owner."""
    if owner is None:
        return np.ones(table.num_rows, np.bool_)
    owned: np.ndarray[Any, Any] = shards_of(keys_of(table, by), SHARDS) % 2 == owner
    return owned


def made_by(config: StepConfig, owner: int | None) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """The rows and the state of an instance that owns some of the shards."""
    step: Step = config.build(SCHEMA)
    step.restore(NOTHING)
    results: list[Result] = []
    for number in range(8):
        table = records(number, 150, 150 * number)
        results.append(step.process(table.filter(pa.array(share(table, BY, owner)))))
        results.append(step.ended(Watermark(450 * number)))
    rows = [row for result in results for row in result.outputs[step.outputs[0].name].to_pylist()]
    return rows, {name: bytes(np.asarray(value)) for name, value in step.save().items()}


def in_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


WINDOW = {"type": "tumbling", "size": "500us", "lateness": "50us"}
SLIDING = {"type": "sliding", "size": "500us", "slide": "60us", "lateness": "50us"}


@pytest.mark.parametrize(
    "config",
    [
        TopK(of="text", k=3, counters=4, window=WINDOW, by=BY),
        TopK(of="predicted", k=2, counters=3, window={"type": "count", "size": 9}, by=BY),
        Trending(window=WINDOW, by=BY, words=5, least=1, rise=1.1),
        Popularity(window={"type": "session", "gap": "60us", "lateness": "20us"}, by=BY),
        Popularity(window=WINDOW, by=BY, half_life="1ms"),
    ],
    ids=["top_k", "top_k by count", "trending", "sessions", "popularity"],
)
def test_sketches_and_evictions_do_not_depend_on_who_owns_the_shards(config: StepConfig) -> None:
    whole, state = made_by(config, None)
    (even, even_state), (odd, odd_state) = (made_by(config, owner) for owner in (0, 1))
    assert in_order(even + odd) == in_order(whole)
    assert even_state | odd_state == state and even and odd and state
    if isinstance(config, TopK):
        assert any(row["error"] for row in whole)  # counters were taken over
    if isinstance(config, Trending):
        assert all(value.count(b"[") < 2000 for value in state.values()) and any(row["expected"] for row in whole)


def failure(run: Callable[[int | None], object], owner: int | None) -> str | None:
    try:
        run(owner)
    except StepFailed as error:
        return str(error)
    return None


def windows_of(options: Mapping[str, Any]) -> Callable[[int | None], object]:
    return lambda owner: made_by(Popularity.model_validate({"by": BY, **options}), owner)


def join_of(most: int) -> Callable[[int | None], object]:
    def run(owner: int | None) -> None:
        step: JoinStep = Join(by=BY, within="50us", most=most).build([SCHEMA, SCHEMA])
        step.restore(NOTHING)
        for number in range(8):
            table = records(number, 150, 150 * number)
            order = np.random.default_rng(number).integers(0, 2, 150)
            kept = share(table, BY, owner)
            inputs = [table.filter(pa.array(kept & (order == side))) for side in (0, 1)]
            step.process(inputs, order[kept])
            step.ended(Watermark(450 * number))

    return run


@pytest.mark.parametrize(
    ("run_of", "least", "what"),
    [
        (lambda most: windows_of({"window": {"type": "session", "gap": "60us"}, "max_open": most}), 8, "open windows"),
        (lambda most: windows_of({"window": WINDOW, "max_open": most}), 8, "open windows, panes included,"),
        (lambda most: windows_of({"window": SLIDING, "max_open": most}), 8, "open windows, panes included,"),
        (lambda most: windows_of({"window": {"type": "count", "size": 1}, "max_open": most}), 8, "keys"),
        (join_of, 100, "records that wait for others"),
    ],
    ids=["sessions", "tumbling", "sliding", "keys", "join"],
)
def test_a_limit_is_hit_at_the_same_number_whoever_owns_the_shards(
    run_of: Callable[[int], Callable[[int | None], object]], least: int, what: str
) -> None:
    allowed = next(most for most in range(least, 5000, SHARDS) if failure(run_of(most), None) is None)
    assert allowed > least
    assert [failure(run_of(allowed), owner) for owner in (0, 1)] == [None, None]
    for most in (allowed - SHARDS, least):
        whole = failure(run_of(most), None)
        assert whole is not None and what in whole and f"in each of {SHARDS} shards" in whole
        assert whole in [failure(run_of(most), owner) for owner in (0, 1)]

"""The `search` of a config: which candidates it has, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.config.load import read_config
from millstream.config.search import Search
from millstream.errors import ConfigError


def values(search: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(choice.values) for choice in Search.model_validate(search).choices()]


def test_a_grid_has_every_combination_of_each_space_once() -> None:
    over = [{"model.alpha": [0.1, 1], "model.batch_size": [1, 16]}, {"model.alpha": [1, 2], "model.batch_size": [16]}]
    found = values({"over": over})
    assert [tuple(each.values()) for each in found] == [(0.1, 1), (0.1, 16), (1, 1), (1, 16), (2, 16)]


def test_the_same_seed_draws_the_same_candidates_each_once_and_within_their_ranges() -> None:
    over = {"model.alpha": {"low": 0.01, "high": 10, "log": True}, "model.size": {"low": 1, "high": 3}, "model.a": [7]}
    drawn, again, others = (values({"over": over, "random": {"candidates": 60, "seed": s}}) for s in (1, 1, 2))
    assert drawn == again != others
    assert len({tuple(each.values()) for each in drawn}) == 60
    assert {each["model.size"] for each in drawn} == {1, 2, 3}
    alphas = sorted(each["model.alpha"] for each in drawn)
    assert 0.01 <= alphas[0] < 0.05 and 2 < alphas[-1] <= 10  # over the orders of magnitude
    assert sum(alpha < 0.3162 for alpha in alphas) in range(20, 41)


def test_candidates_are_drawn_from_lists_without_repetition() -> None:
    over = {"model.alpha": [1, 2, 3, 4], "model.b": [1, 2]}
    drawn = values({"over": over, "random": {"candidates": 7}})
    assert len({tuple(each.values()) for each in drawn}) == 7
    assert {tuple(each.values()) for each in values({"over": over, "random": {"candidates": 8}})} == {
        tuple(each.values()) for each in values({"over": over})
    }


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"over": {}}, "search: the space is empty; `over` has options and their values, as in `model.alpha: [0.1"),
        ({"over": {"model.alpha": []}}, "search.over.model.alpha: there are no values; list at least one"),
        ({"over": {"model.alpha": 3}}, "search.over.model.alpha: 3 is neither a list of values nor a range; write [3]"),
        ({"over": {"model.alpha": [1, 1]}}, "search.over.model.alpha: 1 is there twice; leave one of them out"),
        ({"over": {"alpha": [1]}}, '"alpha" is no option of the model; write `model`, or `model.alpha`; did you mean'),
        ({"over": {"model..alpha": [1]}}, '"model..alpha" is no key path; write a key between the dots'),
        ({"over": {"model.a": {"low": 2, "high": 1}}}, "the range from 2 to 1 is empty; `low` is less than `high`"),
        ({"over": {"model.a": {"low": 0, "high": 1, "log": True}}}, "with `log: true` begins above 0, not at 0"),
        ({"over": {"model.a": {"low": 1, "high": float("inf")}}}, "search.over.model.a.high: "),
        ({"over": {"model.a": {"low": 1, "high": 10**400}}}, "search.over.model.a.high: "),
        ({"over": {"model.a": {"low": 0, "high": 1}}}, "has a range, of which there is no grid; list values, or draw"),
        (
            {"over": {f"model.{key}": list(range(12)) for key in "abc"}},
            "the grid has 1,728 candidates, more than",
        ),
        ({"over": {"model.a": [1, 2]}, "random": {"candidates": 24}}, "2 different candidates, fewer than the 24 to"),
        ({"over": {"model.a": [1]}, "halving": 1}, "search.halving: 1 is not allowed; at least 2"),
        ({"over": {"model.a": [1]}, "held_out": 1}, "search.held_out: 1 is not allowed; less than 1"),
        ({"ovre": {"model.a": [1]}}, "search.ovre: unknown key; did you mean `over`?"),
    ],
)
def test_a_wrong_search_is_refused_with_the_remedy(search: dict[str, Any], message: str) -> None:
    config = {"name": "a", "source": {"type": "generator"}, "pipeline": {"use": "text_topics"}, "search": search}
    with pytest.raises(ConfigError) as refused:
        read_config(config, Path(), "news.yaml")
    assert message in str(refused.value)

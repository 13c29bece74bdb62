"""The `search` of a config: the options of a model that a search tries, and how it compares them."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from millstream.config.pipeline import NAME

__all__ = ["Choice", "Search"]

_MOST = 1000
_TRIES = 100
"""Draws for each candidate: most of them are repetitions only if the space is about as small as the number wanted."""
_MODEL = "model"


def _refusal(message: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message})


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_MOST_WHOLE = 2**53
"""Up to here every whole number is a float, too."""
_Number = (
    Annotated[int, Field(ge=-_MOST_WHOLE, le=_MOST_WHOLE)]
    | Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)]
)


class Range(_Section):
    """A range of numbers for candidates that are drawn at random; two whole numbers make a range of whole numbers."""

    low: _Number = Field(description="The least value.")
    high: _Number = Field(description="The greatest value.")
    log: bool = Field(default=False, description="Draws the logarithm of the value evenly, instead of the value.")

    @model_validator(mode="after")
    def _check_order(self) -> Range:
        if not self.low < self.high:
            raise _refusal(f"the range from {self.low} to {self.high} is empty; `low` is less than `high`")
        if self.log and self.low <= 0:
            raise _refusal(f"a range with `log: true` begins above 0, not at {self.low}")
        return self

    def draw(self, share: float) -> int | float:
        """The value at this share of the range, in [0, 1).

        >>> Range(low=0.01, high=1, log=True).draw(0.5), Range(low=1, high=4).draw(0.99)
        (0.1, 4)
        """
        low, high = (self.low, self.high) if not self._whole else (self.low, self.high + 1)
        if self.log:
            found = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            found = low + share * (high - low)
        return min(int(found), int(self.high)) if self._whole else min(max(float(f"{found:.4g}"), self.low), self.high)

    @property
    def _whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


class RandomDraws(_Section):
    """Candidates that are drawn at random from the space, instead of all of its combinations."""

    candidates: int = Field(ge=1, le=_MOST, description="The number of candidates, each different from the others.")
    seed: int = Field(default=1, ge=0, description="The same seed draws the same candidates.")


def _option(key: str) -> str:
    if key != _MODEL and not key.startswith(f"{_MODEL}."):
        hint = f"; did you mean `{_MODEL}.{key}`?" if key and "." not in key else ""
        raise _refusal(f"{json.dumps(key)} is no option of the model; write `model`, or `model.alpha`{hint}")
    if "" in key.split("."):
        raise _refusal(f"{json.dumps(key)} is no key path; write a key between the dots, as in `model.alpha`")
    return key


def _different(values: list[Any]) -> list[Any]:
    texts = [_canonical(value) for value in values]
    if not values:
        raise _refusal("there are no values; list at least one")
    if repeated := [text for index, text in enumerate(texts) if text in texts[:index]]:
        raise _refusal(f"{repeated[0]} is there twice; leave one of them out")
    return values


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping | Range):
        raise _refusal(f"{_canonical(value)} is neither a list of values nor a range; write [{_canonical(value)}]")
    return value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _kind(value: Any) -> str:
    return "several" if isinstance(value, list) else "one"


_Option = Annotated[str, AfterValidator(_option)]
_Values = Annotated[
    Annotated[list[Any], AfterValidator(_different), Tag("several")]
    | Annotated[Range, BeforeValidator(_mapping), Tag("one")],
    Discriminator(_kind),
]
_Space = dict[_Option, _Values]


@dataclass(frozen=True)
class Choice:
    """The values of one candidate, by the key paths of their options; `space` is the index of its space."""

    space: int
    values: Mapping[str, Any]


class Search(_Section):
    """The candidates of `millstream train --how search`, and how they are compared.

    >>> search = Search.model_validate({"over": {"model.alpha": [0.1, 1.0], "model.batch_size": [1, 16]}})
    >>> [choice.values for choice in search.choices()][:2]
    [{'model.alpha': 0.1, 'model.batch_size': 1}, {'model.alpha': 0.1, 'model.batch_size': 16}]
    """

    step: Annotated[str, Field(pattern=NAME)] | None = Field(
        default=None, description="The step whose model is searched. Default: the only one that classifies."
    )
    over: Annotated[Annotated[_Space, Tag("one")] | Annotated[list[_Space], Tag("several")], Discriminator(_kind)] = (
        Field(
            description="The values to try, by the option of the model: `model.alpha: [0.1, 1.0]`, or, at random, "
            "`model.alpha: {low: 0.01, high: 10, log: true}`. A list of such mappings has several spaces, such as one "
            "for each type of model."
        )
    )
    random: RandomDraws | None = Field(
        default=None, description="Draws candidates at random. Default: every combination of the values is a candidate."
    )
    halving: int | None = Field(
        default=3,
        ge=2,
        le=100,
        description="Of so many candidates, one goes on to so many times the records. `null`: every candidate learns "
        "all records.",
    )
    held_out: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="The share of the records, at the end of the history, that only test the candidates.",
    )

    @model_validator(mode="after")
    def _check_choices(self) -> Search:
        if not self.spaces or not all(self.spaces):
            raise _refusal("the space is empty; `over` has options and their values, as in `model.alpha: [0.1, 1.0]`")
        ranges = [key for space in self.spaces for key, values in space.items() if isinstance(values, Range)]
        if self.random is None:
            if ranges:
                message = f"`{ranges[0]}` has a range, of which there is no grid; list values, or draw candidates at"
                raise _refusal(f"{message} random: `random: {{candidates: 24}}`")
            if (size := sum(math.prod(map(len, space.values())) for space in self._lists)) > _MOST:
                message = f"the grid has {size:,} candidates, more than {_MOST:,}; list fewer values, or draw some at"
                raise _refusal(f"{message} random: `random: {{candidates: 100}}`")
        elif (found := len(self.choices())) < self.random.candidates:
            message = f"the space has {found:,} different candidates, fewer than the {self.random.candidates:,} to draw"
            raise _refusal(f"{message}; lower `random.candidates`, or leave out `random`")
        return self

    @property
    def spaces(self) -> list[dict[str, list[Any] | Range]]:
        return self.over if isinstance(self.over, list) else [self.over]

    @property
    def _lists(self) -> list[dict[str, list[Any]]]:
        """The spaces without ranges."""
        spaces = [{key: each for key, each in space.items() if isinstance(each, list)} for space in self.spaces]
        return [lists for lists, space in zip(spaces, self.spaces, strict=True) if len(lists) == len(space)]

    def choices(self) -> list[Choice]:
        """The candidates, each once: the whole grid, or those drawn; the same for the same config."""
        if self.random is None:
            return list(_once(self._grid(), _MOST))
        size = sum(math.prod(map(len, space.values())) for space in self._lists)
        if len(self._lists) == len(self.spaces) and size <= _MOST * _TRIES:
            draws = random.Random(self.random.seed)
            grid = list(_once(self._grid(), size))
            shuffled = sorted(range(len(grid)), key=lambda _: draws.random())
            return [grid[index] for index in shuffled[: self.random.candidates]]
        drawn = self._drawn(self.random.seed, _TRIES * self.random.candidates)
        return list(_once(drawn, self.random.candidates))

    def _grid(self) -> Iterator[Choice]:
        for number, space in enumerate(self._lists):
            for values in itertools.product(*space.values()):
                yield Choice(number, dict(zip(space, values, strict=True)))

    def _drawn(self, seed: int, times: int) -> Iterator[Choice]:
        draws = random.Random(seed)
        for _ in range(times):
            number = int(draws.random() * len(self.spaces))
            values: dict[str, Any] = {}
            for key, each in self.spaces[number].items():
                share = draws.random()
                values[key] = each.draw(share) if isinstance(each, Range) else each[int(share * len(each))]
            yield Choice(number, values)


def _once(choices: Iterator[Choice], most: int) -> Iterator[Choice]:
    """Yield each different candidate once, so many at most."""
    seen: set[str] = set()
    for choice in choices:
        if len(seen) == most:
            return
        text = _canonical(choice.values)
        if text not in seen:
            seen.add(text)
            yield choice

"""The factors of a study as its file has them: streams, failures and treatments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

__all__ = [
    "WITHOUT_FAILURES",
    "WITH_TRAINING",
    "Blocks",
    "Drift",
    "Failures",
    "Iid",
    "Interleaved",
    "Late",
    "LostOptimiser",
    "Natural",
    "Only",
    "Real",
    "Reordered",
    "Section",
    "StaleState",
    "Stream",
    "Swap",
    "Tail",
    "Treatment",
]


class Section(BaseModel):
    """A part of a study file: it knows all its keys, and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Stream(Section):
    labels: list[str] | None = Field(
        default=None, min_length=2, description="The stream has only records with these labels; null: with any."
    )
    records: int | None = Field(
        default=None, ge=2, description="The number of records; null: that of `data`, which --quick changes."
    )


class Iid(_Stream):
    """Records in a random order."""

    order: Literal["iid"]


class Blocks(_Stream):
    """Blocks of records in each of which one label dominates: bursts of a known size."""

    order: Literal["blocks"]
    size: int = Field(default=1000, ge=2, description="The number of records in a block.")
    share: float = Field(default=0.7, gt=0, le=1, description="The share of a block's records with the block's label.")


class Natural(_Stream):
    """Records that follow each other in time, from a random start."""

    order: Literal["natural"]


class Drift(_Stream):
    """A random sample of all records, in the order of time: the concept drifts over the whole collection."""

    order: Literal["drift"]


class Swap(_Stream):
    """Records in a random order; in the middle, two labels change places, also in the hold-out records."""

    order: Literal["swap"]
    swapped: tuple[str, str] | None = Field(
        default=None, description="The two labels; null: the two most common labels of the data."
    )


class Tail(_Stream):
    """Records in a random order, and at the end all those of one label: a topic that becomes popular late."""

    order: Literal["tail"]
    label: str = Field(description="The label that comes last.")
    share: float = Field(gt=0, lt=1, description="The share of the stream with this label.")


Stream = Annotated[Iid | Blocks | Natural | Drift | Swap | Tail, Field(discriminator="order")]


class Failures(Section):
    """The failures of a trial: their number or share, the records that one reaches back, and their places.

    With the placement `random` or `topic`, each failure is the worst one: the run dies when a whole interval of `span`
    records is processed, and only one of checkpoint and commit is done. With `interval`, it dies after a random
    point of a random epoch.
    """

    span: int = Field(ge=1, description="The records of one interval between checkpoints and commits.")
    number: int | None = Field(default=None, ge=1, description="The number of failures.")
    share: float | None = Field(
        default=None, gt=0, le=1, description="The share of the stream within the intervals of all failures."
    )
    placement: Literal["random", "topic", "interval"] = Field(
        default="random",
        description="The worst moment of random intervals, of those richest in a `topic`, or a random moment.",
    )
    topic: str | None = Field(default=None, description="The label to which the placement `topic` ties the failures.")
    between: tuple[float, float] = Field(
        default=(0.0, 1.0), description="The part of the stream in which failures occur, as two shares of its length."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Failures:
        if (self.number is None) == (self.share is None):
            raise _refusal("give either the `number` of failures or their `share` of the stream")
        if (self.placement == "topic") != (self.topic is not None):
            raise _refusal("`placement: topic` and a `topic` belong together; give both or none")
        if not 0 <= self.between[0] < self.between[1] <= 1:
            raise _refusal(f"`between` is {list(self.between)}; give two shares, the lower one first, as in [0, 0.5]")
        return self

    def count(self, records: int) -> int:
        """Return the number of failures in a stream of so many records.

        >>> Failures(span=60, share=0.06).count(40_000)
        40
        """
        return self.number if self.number is not None else max(1, round((self.share or 0) * records / self.span))


class _Treatment(Section):
    learners: list[str] | None = Field(
        default=None, min_length=1, description="The learners that get this treatment; null: all of them."
    )


class Real(_Treatment):
    """A delivery of the platform."""

    type: Literal["exactly_once", "at_least_once", "at_most_once"]


class Late(_Treatment):
    """At least once, but the repeated records arrive later."""

    type: Literal["late"]
    delay: int | None = Field(
        default=None, ge=0, description="The records of the stream between a failure and its repeats; null: the end."
    )


class Reordered(_Treatment):
    """At least once, but the repeated records of each failure arrive in another order."""

    type: Literal["reordered"]


class Only(_Treatment):
    """One half of the effect of a delivery: on the output alone, or on the state alone."""

    type: Literal["output_only", "state_only"]
    of: Literal["at_least_once", "at_most_once"] = Field(description="The delivery.")


class Interleaved(_Treatment):
    """Exactly once in another legal order: the records come from partitions that take turns."""

    type: Literal["interleaved"]
    partitions: int = Field(default=4, ge=2, le=1024, description="The number of partitions.")
    batch: int = Field(default=50, ge=1, description="The records that come from one partition in a row.")


class StaleState(_Treatment):
    """At each failure, a part of the parameters returns to an older state, as if one parameter server restarted."""

    type: Literal["stale_state"]
    age: int | None = Field(
        default=None, ge=1, description="The age of the older state, in records; null: the span of a failure."
    )
    part: float = Field(default=1.0, gt=0, le=1, description="The share of the parameters that return; 1: all of them.")


class LostOptimiser(_Treatment):
    """At each failure, the optimiser state is lost: the weights stay, and what sets the length of steps starts over."""

    type: Literal["lost_optimiser"]


def _named(value: Any) -> Any:
    """Return a treatment without options, which may be written as its type alone, as a mapping."""
    return {"type": value} if isinstance(value, str) else value


_Any = Annotated[Real | Late | Reordered | Only | Interleaved | StaleState | LostOptimiser, Field(discriminator="type")]
Treatment = Annotated[_Any, BeforeValidator(_named)]

WITHOUT_FAILURES = frozenset({"exactly_once", "interleaved"})
"""The types of treatments for which nothing fails."""
WITH_TRAINING = frozenset({"state_only", "stale_state", "lost_optimiser"})
"""The types of treatments that change the state alone."""


def _refusal(message: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message})

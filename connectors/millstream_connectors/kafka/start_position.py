"""The option `from`: the start position of a partition that was never read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from millstream.timestamps import in_utc, micros_of

__all__ = ["AtOffsets", "AtTime", "StartPosition"]

_Offset = Annotated[int, Field(ge=0)]


def _utc(time: datetime) -> datetime:
    time = in_utc(time)
    if micros_of(time) < 0:
        message = "Kafka has no timestamps before 1970"
        raise ValueError(message)
    return time


class AtTime(BaseModel):
    """At the first message of this time or later.

    >>> AtTime(timestamp="1970-01-01T00:00:01Z").micros
    1000000
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    timestamp: Annotated[datetime, AfterValidator(_utc)] = Field(description="ISO 8601; UTC without a zone.")

    @property
    def micros(self) -> int:
        return micros_of(self.timestamp)


class AtOffsets(BaseModel):
    """At an offset for each partition, by its number; a partition without one starts at its first message."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    offsets: dict[_Offset, _Offset] = Field(min_length=1, description="The offset for each partition.")


def _kind(value: Any) -> str:
    if isinstance(value, AtTime) or (isinstance(value, Mapping) and "timestamp" in value):
        return "at a time"
    return "at offsets" if isinstance(value, AtOffsets | Mapping) else "word"


StartPosition = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")]
    | Annotated[AtTime, Tag("at a time")]
    | Annotated[AtOffsets, Tag("at offsets")],
    Discriminator(_kind),
]

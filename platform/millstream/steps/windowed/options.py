"""The options that all windowed steps have."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from millstream.config.durations import Duration
from millstream.config.partial_windows import MakesWindows
from millstream.steps.keys import KeyFields
from millstream.substreams.windows import WindowConfig

__all__ = ["Emit", "WindowedOptions"]


class Emit(BaseModel):
    """Early rows. The output has two columns more: `_emission` numbers the rows of a window, `_final` marks the last.

    >>> Emit(early="10s").interval(25_000_000), Emit(early="10s").interval(None)
    (2, None)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    early: Duration = Field(
        gt=0,
        description="The interval of event time after which each open window that changed gives rows, such as `10s`.",
    )

    def interval(self, watermark: int | None) -> int | None:
        """The number of the interval in which this watermark is; None before the first watermark."""
        return None if watermark is None else watermark // self.early


class WindowedOptions(MakesWindows):
    """The options of every step that measures something in windows."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    shard_limit: ClassVar[str] = "max_open"
    """The option that is divided between the shards of the keys."""

    name: str | None = Field(default=None, description="The name in messages and in `rejects`; the type if unset.")
    window: WindowConfig
    by: KeyFields | None = Field(
        default=None,
        description="A text field, such as a country, or a list: each of its values has windows of its own.",
    )
    emit: Emit | None = Field(default=None, description="Rows of windows that are still open; null for none.")
    max_open: int = Field(
        default=500_000,
        ge=1,
        description="The most open windows, and the most keys; with `by`, each shard of the keys may hold an equal "
        "part of them, at least 100; the run stops above it.",
        json_schema_extra={"may_change": True},
    )

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of the key; none without `by`."""
        return (self.by,) if isinstance(self.by, str) else self.by or ()

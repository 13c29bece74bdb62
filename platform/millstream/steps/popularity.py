"""Popularity: the topics with a large share of each window, and the changes between windows."""

from __future__ import annotations

from typing import Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from millstream.config.durations import Duration
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import Step
from millstream.steps.topic_sessions import TopicSessions
from millstream.steps.topic_shares import TopicShares
from millstream.steps.windowed.options import WindowedOptions
from millstream.steps.windowed.step import WindowedStep
from millstream.substreams.windows import CountWindow, SessionWindow, SlidingWindow, TumblingWindow

__all__ = ["Popularity"]


class Popularity(WindowedOptions):
    """Counts topics by window; a topic with a share of at least `threshold` of a window's records is popular there.

    A window's rows are made when it closes, ordered by topic. The output `topics`, with windows of an hour and a
    threshold of 0.10:

        _window               topic   count  share  popular  changed
        2026-03-01T08:00:00Z  sport      30   0.60  true     true       the first hour: sport becomes popular
        2026-03-01T08:00:00Z  travel     20   0.40  true     true
        2026-03-01T09:00:00Z  sport      95   0.95  true     false      still popular
        2026-03-01T09:00:00Z  travel      5   0.05  false    true       no longer popular
        2026-03-01T10:00:00Z  sport       0   0.00  false    true       no record about sport, which was popular

    - For alerts, keep the rows with `changed`: in these rows a topic became popular, or is no longer popular.
    - For the topics that are popular now, take the last `_window` and keep the rows with `popular`.
    - `_window` is the start of the window or, for windows that count records, the number of the window from 0.
    - `share` is relative to the window's records that have a topic. Records without a topic are not counted.
    - A topic has a row in every window in which it occurs, and in the window after one in which it was popular. Other
      windows and topics have no rows. After the last record of all partitions, no window follows.
    - `late` has the records whose window had already closed, with the `_window` that they missed. They are not counted.
    - `rejects` has, for windows over time, the records without a time. All records are passed on to the next step.

    >>> records = pa.table({"_rank": [0] * 4, "_offset": [0, 1, 2, 3], "_time": [0, 1, 2, 3], "predicted": [*"aaba"]})
    >>> step = Popularity(window={"type": "count", "size": 3}, threshold=0.5).build(records.schema)
    >>> step.process(records).outputs["topics"].select(["topic", "count", "popular"]).to_pylist()
    [{'topic': 'a', 'count': 2, 'popular': True}, {'topic': 'b', 'count': 1, 'popular': False}]
    """

    type: Literal["popularity"] = "popularity"
    of: str = Field(default="predicted", description="The field with the topic.")
    threshold: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="The smallest share of a popular topic.",
        json_schema_extra={"keeps_state": True},
    )
    half_life: Duration | None = Field(
        default=None,
        gt=0,
        description="For tumbling windows: shares of all records, whose weight halves in this time, such as `6h`; null "
        "for the shares of the window alone.",
    )
    half_life_records: int | None = Field(
        default=None, ge=1, description="The same for count windows: the weight halves in this number of records."
    )

    @model_validator(mode="after")
    def _check_half_life(self) -> Self:
        for option, value, kind in (
            ("half_life", self.half_life, TumblingWindow),
            ("half_life_records", self.half_life_records, CountWindow),
        ):
            if value is not None and not isinstance(self.window, kind):
                message = (
                    f"`{option}` is for {kind.model_fields['type'].default} windows, and these are {self.window.type}"
                )
                raise ValueError(message)
        return self

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        check_text_column(f"step {name!r}, `of`", self.of, records, "topics")
        follows = isinstance(self.window, CountWindow | SlidingWindow | TumblingWindow)
        measure = TopicShares(self.of, self.threshold, self._windows(), follows=follows)
        if isinstance(self.window, SessionWindow) and self.by is not None and self.emit is None:
            return WindowedStep(name, self, measure, records, TopicSessions)
        return WindowedStep(name, self, measure, records)

    def _windows(self) -> float | None:
        """The half-life in windows."""
        half_life = self.half_life_records if self.half_life is None else self.half_life
        if half_life is None or not isinstance(self.window, CountWindow | TumblingWindow):
            return None
        return half_life / self.window.size

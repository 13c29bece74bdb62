"""The rows that a user's function makes of keys whose substreams have ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millstream.errors import ConfigError, StepFailed
from millstream.steps.contracts import Output, WindowRows
from millstream.steps.function_calls import describe_value
from millstream.steps.substream_ends import EndedKey
from millstream.steps.windowed.rows import PARTIAL

__all__ = ["EndedRows"]

_START = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class EndedRows:
    """Calls `function`, named `text` in the config, with keys that have ended; `makes` are the fields of its rows.

    With `last_partial`, a column marks the rows of substreams that began at or before this time as partial.

    >>> rows = EndedRows("follow", "rules:close", lambda key, state: {"texts": str(state)}, ["author"], ["texts"])
    >>> made, windows = rows.of([EndedKey(20, "ann", 10, "3")])
    >>> made.drop_columns(["_window"]).to_pylist(), windows.times.to_pylist()
    ([{'author': 'ann', 'texts': '3'}], [20])
    """

    step: str
    text: str
    function: Callable[..., Any]
    fields: Sequence[str]
    makes: Sequence[str]
    last_partial: int | None = None

    def __post_init__(self) -> None:
        for name in self.makes:
            if name in self.fields:
                message = f"step {self.step!r}, `makes`: {name!r} is a field of the key, which every row has"
                raise ConfigError(message)

    @property
    def output(self) -> Output:
        """The output `ended`: `_window` is the time of the substream's first record."""
        texts = [pa.field(name, pa.string()) for name in (*self.fields, *self.makes)]
        partial = [] if self.last_partial is None else [PARTIAL]
        schema = pa.schema([pa.field("_window", _START), *texts, *partial])
        return Output("ended", schema, of="window", key=tuple(self.fields))

    def of(self, ended: Sequence[EndedKey]) -> tuple[pa.Table, WindowRows]:
        """The rows of these keys, and their windows; the number of a window is the time of its first record."""
        rows, windows = [], []
        for each in ended:
            values = [each.key] if len(self.fields) == 1 else json.loads(each.key)
            key = dict(zip(self.fields, values, strict=True))
            made = self._call(key, each.state)
            if made is not None:
                partial = self.last_partial is not None and (each.first or 0) <= self.last_partial
                rows.append({"_window": each.first, **key, **made, PARTIAL.name: partial})
                windows.append((each.first or 0, each.end))
        numbers, times = zip(*windows, strict=True) if windows else ((), ())
        found = WindowRows(pa.array(numbers, pa.int64()), pa.array(times, pa.int64()))
        return pa.Table.from_pylist(rows, schema=self.output.schema), found

    def _call(self, key: Mapping[str, str], state: str) -> Mapping[str, str | None] | None:
        try:
            returned = self.function(dict(key), json.loads(state))
        except Exception as error:
            message = f"it raised {type(error).__name__}: {error}"
            raise StepFailed(self._wrong(key, message)) from error
        if returned is None:
            return None
        if not isinstance(returned, Mapping):
            raise StepFailed(self._wrong(key, f"it returned {describe_value(returned)}, not a dict of fields, or None"))
        for name, value in returned.items():
            if name not in self.makes:
                message = f"it returned a field {name!r}, which is not in `makes`"
                raise StepFailed(self._wrong(key, message))
            if value is not None and not isinstance(value, str):
                message = (
                    f"it returned {describe_value(value)} for {name!r}; fields are text, so return str(...) or None"
                )
                raise StepFailed(self._wrong(key, message))
        return returned

    def _wrong(self, key: Mapping[str, str], message: str) -> str:
        return f"step {self.step!r}, function {self.text}, for the key {dict(key)}: {message}"

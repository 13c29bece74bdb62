"""A step that measures something in windows: every kind of window, with or without keys, with or without early rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.errors import ConfigError, StepFailed
from millstream.records import no_records
from millstream.state.shard_limit import ShardLimit
from millstream.steps.contracts import Output, Result, Scope, State, Traits, rejects_schema
from millstream.steps.keys import check_key_fields, coded, keys_of
from millstream.steps.reject_rows import reject_rows
from millstream.steps.windowed.late_rows import late_rows, late_schema
from millstream.steps.windowed.measures import Measure
from millstream.steps.windowed.open_windows import Added, OpenWindows
from millstream.steps.windowed.options import WindowedOptions
from millstream.steps.windowed.panes_by_key import PanesByKey
from millstream.steps.windowed.rows import MadeRows, RowColumns
from millstream.substreams import Watermark
from millstream.substreams.windows import SlidingWindow

__all__ = ["WindowedStep"]


class WindowedStep:
    """A measure in windows. Without `by` there is one key, and the step is global.

    `open_windows` makes the object that holds the keys with their windows.
    """

    def __init__(
        self,
        name: str,
        options: WindowedOptions,
        measure: Measure,
        records: pa.Schema,
        open_windows: Callable[..., OpenWindows] = PanesByKey,
    ) -> None:
        self._name = name
        self._options = options
        self._measure = measure
        self._key = options.key_fields
        check_key_fields(self._key, records, f"step {name!r}, `by`")
        self._windows = options.window.open()
        until = options.partial_until
        self._columns = RowColumns(
            self._windows.label,
            self._key,
            measure.columns,
            emissions=options.emit is not None,
            last_partial=None if until is None else self._windows.last_since(until),
        )
        self._check_columns()
        self._no_records = no_records(records)
        self._late = late_schema(records, self._windows.label)
        self._rejects = rejects_schema(records)
        self._open = open_windows(options, self._windows, measure, self._columns)
        self.restore({})

    def _check_columns(self) -> None:
        """Refuse a field of the key that has the name of another column of the rows."""
        names = self._columns.schema.names
        for field in self._key:
            if names.count(field) > 1:
                rows = f"the rows of `{self._measure.output}` have a column {field!r} of their own"
                hint = "give the field another name, in the `fields` of the source or where a step adds it"
                raise ConfigError(f"step {self._name!r}, `by`: {rows}; {hint}")

    @property
    def traits(self) -> Traits:
        windows, ends = self._windows, self._windows.ends
        return Traits(
            Scope.KEYED if self._key else Scope.GLOBAL,
            ordered=windows.ordered or self._measure.ordered,
            ends=ends if self._options.emit is None else ends | {"time"},
            key=self._options.by,
            held_back=windows.lateness,
        )

    @property
    def outputs(self) -> Sequence[Output]:
        measure = self._measure
        emission = ["_emission"] if self._options.emit is not None else []
        made = Output(measure.output, self._columns.schema, of="window", key=(*self._key, *measure.identity, *emission))
        by_time = "time" in self._windows.ends
        late = [Output("late", self._late)] if by_time else []
        rejects = [Output("rejects", self._rejects)] if by_time or self._key else []
        return [made, *late, *rejects]

    def process(self, records: pa.Table) -> Result:
        if not records.num_rows:
            return self._result(records, self._columns.none)
        keys = coded(keys_of(records, self._key)) if self._key else None
        read = self._measure.read(records)
        try:
            added = self._open.add(records, read, keys)
        except StepFailed as error:  # of a predicate, which does not know its step
            message = f"step {self._name!r}, {error}"
            raise StepFailed(message, error.rank, error.offset, error.path) from error
        self._check_limits()
        outputs: dict[str, pa.Table] = {}
        if len(added.late):
            topics = self._measure.topics(read, added.late)
            outputs["late"] = late_rows(records, added.late, topics, self._windows.labels(added.missed.tolist()))
        if (rejects := self._rejects_of(records, added, keys)) is not None:
            outputs["rejects"] = rejects
        return self._result(records, added.made, outputs)

    def ended(self, substream: Any) -> Result:
        made = self._open.end(substream) if isinstance(substream, Watermark) else self._columns.none
        return self._result(self._no_records, made)

    def resume(self, watermark: Watermark) -> None:
        self._open.resume(watermark)

    def save(self) -> State:
        return self._open.save()

    def restore(self, state: State) -> None:
        self._open.restore(state)

    def _rejects_of(self, records: pa.Table, added: Added, keys: pa.DictionaryArray | None) -> pa.Table | None:
        """The records without a time or without a key."""
        reasons = dict.fromkeys(added.untimed.tolist(), "no time")
        if keys is not None and keys.null_count:
            without = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
            reasons |= dict.fromkeys(without.tolist(), f"no {' or '.join(self._key)}")
        if not reasons:
            return None
        rejected = sorted(reasons)
        return reject_rows(self._name, records, rejected, [reasons[row] for row in rejected])

    def _check_limits(self) -> None:
        """Stop if a shard holds too much; so the result does not depend on the number of processes."""
        held = (("open windows, panes included,", self._open.open_in_shards), ("keys", self._open.keys_in_shards))
        for what, numbers in held:
            limit = ShardLimit("max_open", self._options.max_open, len(numbers))
            if numbers.max() <= limit.each:
                continue
            shard = int(np.flatnonzero(numbers > limit.each)[0])
            sliding = isinstance(self._options.window, SlidingWindow)
            message = (
                f"step {self._name!r} has {int(numbers[shard]):,} {what} {limit.describe(shard)}; "
                f"make {'`slide`' if sliding else 'the windows'} longer, the lateness shorter, the keys fewer, or "
                "`max_open` greater"
            )
            raise StepFailed(message)

    def _result(self, records: pa.Table, made: MadeRows, outputs: Mapping[str, pa.Table] | None = None) -> Result:
        output = self._measure.output
        return Result(records, {output: made.table, **(outputs or {})}, windows={output: made.windows})

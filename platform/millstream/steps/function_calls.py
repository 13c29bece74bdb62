"""Calls of a user's function on records, and what becomes of the errors it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa

from millstream.errors import MillstreamError, StepFailed
from millstream.records import OFFSET, RANK, TIME
from millstream.steps.contracts import rejects_schema

__all__ = ["Calls", "Done", "Misuse", "Rejected", "shown"]


class Misuse(Exception):
    """A function returned what it may not. That is its author's mistake, so no record is rejected for it."""


class Rejected(Exception):
    """A record that cannot be given to the function, for the reason said, whatever becomes of errors."""


@dataclass(frozen=True)
class Done:
    """The records that the function has taken, what it made of them, and the rejects.

    `values` is what the reader of whole batches gave, or a list of what the reader of single records gave.
    """

    records: pa.Table
    values: Any
    outputs: Mapping[str, pa.Table]


@dataclass(frozen=True)
class Calls:
    """Calls `function`, named `text` in the config, on records one by one or many at once.

    A batch that it raises on is given to it again record by record, to find those that are at fault: the outcome is
    the same however the records were cut into batches.
    """

    step: str
    text: str
    function: Callable[..., Any]
    per: Literal["record", "batch"]
    rejects: bool

    def run(
        self,
        records: pa.Table,
        read_one: Callable[[Mapping[str, Any], Any], Any],
        read_batch: Callable[[pa.Table, Any], Any],
    ) -> Done:
        """Call it on all records; the readers check what it returned and raise `Misuse`."""
        if self.per == "batch" and records.num_rows:
            return self._batch(records, _fields(records), read_batch)
        return self.each(records, lambda record: read_one(record, self.function(dict(record))))

    def each(self, records: pa.Table, call: Callable[[Mapping[str, Any]], Any]) -> Done:
        """Have it called on each record; `call` gets the record's fields, and raises `Misuse` or `Rejected`."""
        values, faults = [], {}
        for row, record in enumerate(_fields(records).to_pylist()):
            try:
                values.append(call(record))
            except Misuse as misuse:
                self._fail(records, row, str(misuse))
            except Rejected as rejected:
                faults[row] = str(rejected)
            except MillstreamError:  # of where state is kept: no record is to blame
                raise
            except Exception as error:
                faults[row] = self._fault(records, row, error)
        return Done(_without(records, faults), values, self._outputs(records, faults))

    def _batch(self, records: pa.Table, fields: pa.Table, read: Callable[[pa.Table, Any], Any]) -> Done:
        try:
            return Done(records, self._whole(records, fields, read), {})
        except StepFailed:
            raise
        except Exception:
            faults = self._alone(records, fields)
        outputs = self._outputs(records, faults)
        records, fields = _without(records, faults), _without(fields, faults)
        if not records.num_rows:
            return Done(records, [], outputs)
        try:
            return Done(records, self._whole(records, fields, read), outputs)
        except StepFailed:
            raise
        except Exception as error:
            hint = "though on none of them alone; each record must be treated on its own"
            self._fail(records, 0, f"it raised {_told(error)} on {records.num_rows} records together, {hint}", error)

    def _whole(self, records: pa.Table, fields: pa.Table, read: Callable[[pa.Table, Any], Any]) -> Any:
        try:
            return read(fields, self.function(fields))
        except Misuse as misuse:
            self._fail(records, 0, str(misuse))

    def _alone(self, records: pa.Table, fields: pa.Table) -> dict[int, str]:
        faults = {}
        for row in range(fields.num_rows):
            try:
                self.function(fields.slice(row, 1))
            except Exception as error:
                faults[row] = self._fault(records, row, error)
        return faults

    def _fault(self, records: pa.Table, row: int, error: Exception) -> str:
        if not self.rejects:
            hint = "mend it, or put such records into `rejects` with `on_error: reject`"
            self._fail(records, row, f"it raised {_told(error)}; {hint}", error)
        return _told(error)

    def _fail(self, records: pa.Table, row: int, what: str, cause: Exception | None = None) -> NoReturn:
        rank, offset = records[RANK][row].as_py(), records[OFFSET][row].as_py()
        raise StepFailed(f"step {self.step!r}, function {self.text}: {what}", rank, offset) from cause

    def _outputs(self, records: pa.Table, faults: Mapping[int, str]) -> Mapping[str, pa.Table]:
        if not faults:
            return {}
        rows = records.select([RANK, OFFSET, TIME]).take(pa.array(list(faults), pa.int64()))
        rows = rows.append_column("step", pa.repeat(pa.scalar(self.step), rows.num_rows))
        rows = rows.append_column("reason", pa.array(list(faults.values()), pa.string()))
        return {"rejects": rows.cast(rejects_schema())}


def _fields(records: pa.Table) -> pa.Table:
    return records.select([name for name in records.column_names if not name.startswith("_")])


def _without(table: pa.Table, faults: Mapping[int, str]) -> pa.Table:
    if not faults:
        return table
    mask = np.ones(table.num_rows, np.bool_)
    mask[list(faults)] = False
    return table.filter(pa.array(mask))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".encode(errors="replace").decode()


def shown(value: Any) -> str:
    """A value as messages tell it."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"

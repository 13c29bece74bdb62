"""Calls of a user's function on records, and the handling of the errors that the function raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa

from millstream.errors import MillstreamError, StepFailed
from millstream.records import record_failed
from millstream.steps.reject_rows import reject_rows

__all__ = ["FunctionCalls", "Misuse", "RecordRejected", "describe_value"]


class Misuse(Exception):
    """The function returned a value that is not allowed: a mistake of its author, for which no record is rejected."""


class RecordRejected(Exception):
    """The record cannot be given to the function. The record is rejected even with `on_error: fail`."""


@dataclass(frozen=True)
class CallResult:
    """The records on which the function succeeded, the values that it returned for them, and the rejects.

    `values` is the return value of the reader of batches, or a list of the return values of the reader of records.
    """

    records: pa.Table
    values: Any
    outputs: Mapping[str, pa.Table]


@dataclass(frozen=True)
class FunctionCalls:
    """Calls `function`, named `text` in the config, with single records or with batches of records.

    If the function raises an error on a batch, it is called again with each record alone, to find the records that
    cause errors. So the results are the same for every cut of the records into batches.
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
    ) -> CallResult:
        """Call the function on all records. The readers check the returned values and raise `Misuse`."""
        if self.per == "batch" and records.num_rows:
            return self._run_batch(records, _select_fields(records), read_batch)
        return self.run_each(records, lambda record: read_one(record, self.function(dict(record))))

    def run_each(self, records: pa.Table, call: Callable[[Mapping[str, Any]], Any]) -> CallResult:
        """Run `call` with each record's fields. `call` calls the function and raises `Misuse` or `RecordRejected`."""
        values, faults = [], {}
        for row, record in enumerate(_select_fields(records).to_pylist()):
            try:
                values.append(call(record))
            except Misuse as misuse:
                self._fail(records, row, str(misuse))
            except RecordRejected as rejected:
                faults[row] = str(rejected)
            except MillstreamError:  # from the store of the state: no record caused it
                raise
            except Exception as error:
                faults[row] = self._fail_or_describe(records, row, error)
        return CallResult(_drop_rows(records, faults), values, self._make_rejects(records, faults))

    def _run_batch(self, records: pa.Table, fields: pa.Table, read: Callable[[pa.Table, Any], Any]) -> CallResult:
        try:
            return CallResult(records, self._call_batch(records, fields, read), {})
        except StepFailed:
            raise
        except Exception:
            faults = self._find_faults(records, fields)
        outputs = self._make_rejects(records, faults)
        records, fields = _drop_rows(records, faults), _drop_rows(fields, faults)
        if not records.num_rows:
            return CallResult(records, [], outputs)
        try:
            return CallResult(records, self._call_batch(records, fields, read), outputs)
        except StepFailed:
            raise
        except Exception as error:
            what = f"it raised {_describe(error)} on {records.num_rows} records together, though on none of them alone"
            self._fail(records, 0, f"{what}; it must treat each record on its own", error)

    def _call_batch(self, records: pa.Table, fields: pa.Table, read: Callable[[pa.Table, Any], Any]) -> Any:
        try:
            return read(fields, self.function(fields))
        except Misuse as misuse:
            self._fail(records, 0, str(misuse))

    def _find_faults(self, records: pa.Table, fields: pa.Table) -> dict[int, str]:
        faults = {}
        for row in range(fields.num_rows):
            try:
                self.function(fields.slice(row, 1))
            except Exception as error:
                faults[row] = self._fail_or_describe(records, row, error)
        return faults

    def _fail_or_describe(self, records: pa.Table, row: int, error: Exception) -> str:
        if not self.rejects:
            hint = "mend it, or put such records into `rejects` with `on_error: reject`"
            self._fail(records, row, f"it raised {_describe(error)}; {hint}", error)
        return _describe(error)

    def _fail(self, records: pa.Table, row: int, what: str, cause: Exception | None = None) -> NoReturn:
        raise record_failed(f"step {self.step!r}, function {self.text}: {what}", records, row) from cause

    def _make_rejects(self, records: pa.Table, faults: Mapping[int, str]) -> Mapping[str, pa.Table]:
        if not faults:
            return {}
        return {"rejects": reject_rows(self.step, records, list(faults), list(faults.values()))}


def _select_fields(records: pa.Table) -> pa.Table:
    return records.select([name for name in records.column_names if not name.startswith("_")])


def _drop_rows(table: pa.Table, faults: Mapping[int, str]) -> pa.Table:
    if not faults:
        return table
    mask = np.ones(table.num_rows, np.bool_)
    mask[list(faults)] = False
    return table.filter(pa.array(mask))


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".encode(errors="replace").decode()


def describe_value(value: Any) -> str:
    """Describe a value for a message: its text, cut if it is long, and its type."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"

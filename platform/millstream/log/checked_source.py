"""Checks of a source where it is used: a mistake in its code is reported with the source, the method and the remedy."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from numbers import Integral
from typing import Any, NoReturn, Protocol

import pyarrow as pa

from millstream.errors import MillstreamError
from millstream.log.contracts import Log, OpenContext, Partition, SourceConfig
from millstream.records import OFFSET, log_schema
from millstream.system_errors import system_error

__all__ = ["open_log", "problems_of"]

_METHODS = ("partitions", "beginning", "resume", "end", "is_current", "ended", "identity", "read", "close")


class _Connector(Protocol):
    """The config of a source or sink."""

    @property
    def type(self) -> str: ...

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]: ...


def open_log(config: SourceConfig, context: OpenContext) -> Log:
    """Open the log of a source; its methods raise `MillstreamError` for a mistake in the code of the source."""
    subject = f"the source {config.type}"
    try:
        log = config.open(context)
    except Exception as error:
        _report(subject, "open", error)
    missing = [name for name in _METHODS if not callable(getattr(log, name, None))]
    if missing:
        found = "None" if log is None else f"a value of the type {type(log).__name__}, which has no `{missing[0]}`"
        raise _mistake(subject, "open", found, "return a log, whose class derives from millstream.plugin.Log")
    return _CheckedLog(log, subject)


def problems_of(kind: str, config: _Connector, context: OpenContext) -> list[tuple[str, str]]:
    """Return the problems that a source or sink reports; `MillstreamError` if they are not pairs of texts."""
    subject = f"the {kind} {config.type}"
    remedy = "return a list of pairs, an option and a message; an empty list if there is no problem"
    try:
        returned: object = config.problems(context)
        if not isinstance(returned, Iterable) or isinstance(returned, str):
            raise _mistake(subject, "problems", _described(returned), remedy)
        found: list[Any] = list(returned)
    except Exception as error:
        _report(subject, "problems", error)
    for each in found:
        if not isinstance(each, tuple | list) or len(each) != 2 or not all(isinstance(text, str) for text in each):
            raise _mistake(subject, "problems", f"{_described(each)} among the problems", remedy)
    return [(option, message) for option, message in found]


class _CheckedLog:
    """A log whose answers and records are checked; `MillstreamError` names the source and the method of a mistake."""

    def __init__(self, log: Log, subject: str) -> None:
        self._log, self._subject = log, subject

    @property
    def fields(self) -> Sequence[str]:
        return self._log.fields

    def partitions(self) -> Sequence[Partition]:
        found = self._call("partitions")
        remedy = "return a list of `Partition(name)`, in which every name is a text"
        if isinstance(found, str) or not isinstance(found, Iterable):
            raise _mistake(self._subject, "partitions", _described(found), remedy)
        partitions = list(found)
        for each in partitions:
            if not isinstance(each, Partition) or not isinstance(each.name, str):
                raise _mistake(self._subject, "partitions", f"{_described(each)} in its list", remedy)
        return partitions

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        return self._offset("beginning", self._call("beginning", partition, joined=joined))

    def resume(self, partition: str, wanted: int) -> int:
        return self._offset("resume", self._call("resume", partition, wanted))

    def end(self, partition: str) -> int:
        return self._offset("end", self._call("end", partition))

    def is_current(self, partition: str) -> bool:
        return bool(self._call("is_current", partition))

    def ended(self, partition: str) -> bool:
        return bool(self._call("ended", partition))

    def identity(self, partition: str, upto: int) -> str:
        try:
            found = self._log.identity(partition, upto)
        except Exception as error:
            for _ in self.read(partition, self.beginning(partition), upto):
                pass  # the default identity reads the records: a mistake in `read` is reported as one of `read`
            _report(self._subject, "identity", error)
        if not isinstance(found, str):
            raise _mistake(self._subject, "identity", _described(found), "return a text")
        return found

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        returned = self._call("read", partition, start, stop)
        if not isinstance(returned, Iterable) or isinstance(returned, pa.RecordBatch | pa.Table):
            raise _mistake(self._subject, "read", _described(returned), _YIELD)
        batches, before = iter(returned), start - 1
        while (batch := self._next(batches)) is not None:
            before = self._check(batch, partition, (start, stop), before)
            yield batch

    def close(self) -> None:
        self._call("close")

    @cached_property
    def _schema(self) -> pa.Schema:
        return log_schema(self.fields)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self._log, method)(*arguments, **options)
        except Exception as error:
            _report(self._subject, method, error)

    def _next(self, batches: Iterator[object]) -> pa.RecordBatch | None:
        try:
            batch = next(batches, None)
        except Exception as error:
            _report(self._subject, "read", error)
        if batch is not None and not isinstance(batch, pa.RecordBatch):
            raise _mistake(self._subject, "read", _described(batch), _YIELD, "yields")
        return batch

    def _offset(self, method: str, found: object) -> int:
        if type(found) is int:
            return found
        if not isinstance(found, Integral):
            raise _mistake(self._subject, method, _described(found), "return an offset, which is an int")
        return int(found)

    def _check(self, batch: pa.RecordBatch, partition: str, span: tuple[int, int], before: int) -> int:
        """Check the columns of a batch and its offsets, which rise from `before`; return the last one."""
        if not batch.schema.equals(self._schema):
            self._check_columns(batch.schema)
        column = batch.column(OFFSET)
        if not len(column):
            return before
        offsets = column.to_numpy(zero_copy_only=False)
        last = offsets[-1]
        if column.null_count or offsets[0] <= before or last >= span[1] or not (offsets[1:] > offsets[:-1]).all():
            earlier = f" after the offset {before}" if before >= span[0] else ""
            found = (
                f"the offsets {offsets[0]} to {last} of [{span[0]}, {span[1]}) in the partition {partition!r}{earlier}"
            )
            remedy = "yield each offset in [start, stop) at most once, in rising order"
            raise _mistake(self._subject, "read", found, remedy, "yields")
        return int(last)

    def _check_columns(self, found: pa.Schema) -> None:
        """Refuse a batch without a column of the log, or with a column of another type."""
        for column in self._schema:
            index = found.get_field_index(column.name)
            if index < 0 or found.field(index).type != column.type:
                what = "no column" if index < 0 else f"{found.field(index).type} as the column"
                raise _mistake(self._subject, "read", f"{what} {column.name!r} of {column.type}", _YIELD, "yields")


_YIELD = "yield record batches with the schema `log_schema(self.fields)`"


def _described(value: object) -> str:
    text = repr(value).partition("\n")[0]
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def _mistake(subject: str, method: str, found: str, remedy: str, verb: str = "returns") -> MillstreamError:
    return MillstreamError(f"{subject}: `{method}` {verb} {found}; {remedy}")


def _report(subject: str, method: str, error: Exception) -> NoReturn:
    """Raise an error that names the source and its method; one that a user can act on stays as it is."""
    if isinstance(error, MillstreamError) or (isinstance(error, OSError) and system_error(error) is not None):
        raise error
    message = f"{subject}: `{method}` failed: {type(error).__name__}: {error}{_place(error)}; mend it"
    raise MillstreamError(message) from error


def _place(error: Exception) -> str:
    """The file and the line in the source's own module at which it raised an error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    theirs = [frame for frame in frames if frame.filename == frames[0].filename]
    return f", at {theirs[-1].filename}, line {theirs[-1].lineno}" if theirs else ""

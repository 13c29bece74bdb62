"""One Parquet file as a log: its rows in our columns; reading goes on without decoding earlier rows again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.errors import AlteredLog, ConfigError
from millstream.log.formats.columns import records_of
from millstream.log.formats.rows import numbers_as_text
from millstream.suggestions import suggestion

__all__ = ["ParquetFile"]

_ROWS = 8192
_MICROS = 1_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class ParquetFile:
    """Rows of a Parquet file; if `strict`, the file must have a column for every field, not only for the text."""

    def __init__(self, path: Path, fields: Mapping[str, str], *, strict: bool) -> None:
        self.path = path
        self._fields = fields
        try:
            self._file = pq.ParquetFile(path, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise _damage(path, error) from None
        schema = self._file.schema_arrow
        for ours, theirs in fields.items():
            if theirs not in schema.names and (strict or ours == "text"):
                meant = suggestion(theirs, schema.names, f"it has {', '.join(schema.names)}")
                message = f"{path} has no column {theirs!r} to take {ours!r} from{meant}"
                raise ConfigError(message)
            if theirs in schema.names and pa.types.is_nested(schema.field(theirs).type):
                message = f"{path}: the column {theirs!r} is {schema.field(theirs).type}, which cannot be {ours!r}"
                raise ConfigError(message)
        self._columns = sorted({theirs for theirs in fields.values() if theirs in schema.names})
        groups = [self._file.metadata.row_group(group).num_rows for group in range(self._file.num_row_groups)]
        self._starts = np.concatenate(([0], np.cumsum(groups, dtype=np.int64)))
        self._reader: tuple[int, Iterator[pa.RecordBatch]] | None = None
        self._rest: pa.RecordBatch | None = None

    def count(self) -> int:
        return int(self._starts[-1])

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows [start, stop) as records."""
        if stop > self.count():
            message = f"{self.path} has {self.count():,} rows, and row {stop - 1:,} was to be read: it was replaced"
            raise AlteredLog(message)
        while start < stop:
            batch = self._batch_at(start).slice(0, stop - start)
            reasons = _not_utf8([(name, batch[name]) for name in self._columns])
            columns = {ours: self._column(batch, ours, theirs) for ours, theirs in self._fields.items()}
            yield records_of(columns, reasons, batch.num_rows, self._fields, start)
            start += batch.num_rows

    def _batch_at(self, row: int) -> pa.RecordBatch:
        """The decoded rows from this row on; the reader is kept, so the next call goes on after them."""
        at, batches = self._reader or (-1, iter(()))
        rest = self._rest
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        if at < 0 or row < at or int(self._starts[group]) > at + _ROWS:
            at = int(self._starts[group])
            groups = list(range(group, self._file.num_row_groups))
            batches = self._file.iter_batches(_ROWS, row_groups=groups, columns=self._columns, use_threads=False)
            rest = None
        while rest is None or at + rest.num_rows <= row:
            at += rest.num_rows if rest is not None else 0
            try:
                rest = next(batches)
            except (pa.ArrowException, OSError) as error:
                raise _damage(self.path, error) from None
        self._reader, self._rest = (at, batches), rest
        return rest.slice(row - at)

    def _column(self, batch: pa.RecordBatch, ours: str, theirs: str) -> pa.Array:
        if theirs not in self._columns:
            return pa.nulls(batch.num_rows, pa.string())
        column = batch[theirs]
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return _as_time(column) if ours == "time" else _as_text(column)

    def digest(self) -> str:
        """A digest of the whole file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def close(self) -> None:
        self._reader = self._rest = None
        self._file.close()


def _damage(path: Path, error: Exception) -> Exception:
    """The error for a file that is no Parquet; an error of the operating system has a number and stays what it is."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return AlteredLog(f"{path} is not a whole Parquet file: {error}")


def _not_utf8(columns: Iterable[tuple[str, pa.Array]]) -> list[str | None] | None:
    """The error of each row whose text is not UTF-8, None if all rows are; Parquet's writers need not check."""
    reasons: dict[int, str] = {}
    rows = 0
    for name, column in columns:
        rows = len(column)
        text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type) or _is_bytes(text.type)):
            continue
        try:
            _as_text(text).validate(full=True)
        except pa.ArrowInvalid:
            for row, value in enumerate(_as_text(text).cast(pa.binary()).to_pylist()):
                try:
                    (value or b"").decode()
                except UnicodeDecodeError as error:
                    reasons.setdefault(row, f"{name} is not UTF-8 at byte {error.start}")
    return [reasons.get(row) for row in range(rows)] if reasons else None


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    if _is_bytes(column.type):
        return column.cast(pa.binary()).view(pa.string())  # a cast would refuse the whole column for one bad value
    if pa.types.is_floating(column.type):  # pandas writes NaN for a missing number
        return numbers_as_text(column.cast(pa.float32()) if pa.types.is_float16(column.type) else column)
    return column.cast(pa.string())


def _as_time(column: pa.Array) -> pa.Array:
    """Times as `records_of` takes them: text, seconds, or microseconds."""
    kind = column.type
    if pa.types.is_date(kind):
        column, kind = column.cast(pa.timestamp("s")), pa.timestamp("s")
    if pa.types.is_timestamp(kind):
        ticks = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
        per_second = _PER_SECOND[kind.unit]
        if per_second > _MICROS:
            micros = ticks // (per_second // _MICROS)
        else:
            each = _MICROS // per_second
            most = np.iinfo(np.int64).max // each
            micros = np.clip(ticks, -most, most) * each
        return pa.array(micros, mask=column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    return _as_text(column)

"""Checks, as a step is built, of the columns that its options name."""

from __future__ import annotations

import pyarrow as pa

from millstream.errors import ConfigError
from millstream.records import is_text
from millstream.suggestions import suggestion

__all__ = ["WrongInput", "check_column", "check_text_column"]


class WrongInput(ConfigError):
    """The records of one of the inputs of a step are not those that the step needs; `number` is that of the input."""

    def __init__(self, option: str, problem: str, number: int) -> None:
        super().__init__(f"{option}: {problem}")
        self.number = number
        self._option, self._problem = option, problem

    def naming(self, stream: str) -> str:
        """The message with the name of the stream."""
        return f"{self._option}, stream {stream!r}: {self._problem}"


def check_column(option: str, column: str, records: pa.Schema, advice: str = "") -> None:
    """Refuse (`ConfigError`) a column that the records do not have.

    `option` is the step and the option that named the column. `advice` follows if no column has a similar name.

    >>> check_column("classify, `label`", "labl", pa.schema([("text", pa.string()), ("label", pa.string())]))
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: classify, `label`: the records have no column 'labl' here; did you mean `label`?
    """
    if column in records.names:
        return
    fields = [name for name in records.names if not name.startswith("_")]
    meant = suggestion(column, records.names, f"there are {', '.join(fields) or 'no fields'}{advice}")
    raise ConfigError(f"{option}: the records have no column {column!r} here{meant}")


def check_text_column(option: str, column: str, records: pa.Schema, content: str) -> None:
    """Refuse (`ConfigError`) a column that the records do not have or that is not text, as its `content` must be.

    >>> check_text_column("popularity, `of`", "_time", pa.schema([("_time", pa.int64())]), "topics")
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: popularity, `of`: topics are text, but '_time' is int64; name a text column
    """
    check_column(option, column, records)
    kind = records.field(column).type
    if not is_text(kind):
        raise ConfigError(f"{option}: {content} are text, but {column!r} is {kind}; name a text column")

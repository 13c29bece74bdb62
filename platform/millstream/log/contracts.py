"""The contracts of the edges: logs that are read, sinks that are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

__all__ = ["Log", "OpenContext", "Partition", "Progress", "Sink", "SinkConfig", "SourceConfig"]


@dataclass(frozen=True)
class OpenContext:
    """Where relative paths of a config start (`base`), and where a part may keep files of its own (`cache`).

    `pipeline` is the pipeline's name, for what has to be told apart outside the run directory. In a `fail_fast`
    somebody only looks and waits for the answer: a server that is away is not waited for. Once a run is `stopped` it
    waits no longer either.
    """

    base: Path
    cache: Path
    pipeline: str = ""
    fail_fast: bool = False
    stopped: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Partition:
    """One partition of a log: its lasting name, and its own number for `_partition`; None to count by appearance."""

    name: str
    number: int | None = None


@dataclass(frozen=True)
class Progress:
    """What a sink holds: rows of this epoch log, the last of them of this epoch."""

    log: str
    epoch: int


class Log(Protocol):
    """A source: partitions of records that can be read again.

    Reading a range twice gives the same records. Gaps in offsets are normal: a range is done by position, never by
    row count. `read` may run in another process than the other methods, on a copy made by the config's `open`.
    """

    @property
    def fields(self) -> Sequence[str]:
        """The columns that `read` yields beside `_offset`, `_time` and `_reject`."""
        ...

    def partitions(self) -> Sequence[Partition]:
        """All partitions that there are now, in the order in which new ones are to be counted."""
        ...

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        """The first offset to read of a partition that is new; `joined`: it came while the source was being read."""
        ...

    def resume(self, partition: str, wanted: int) -> int:
        """Where reading goes on that has come to `wanted`: there.

        Or at a later offset, if what was there has been removed and the config says to go on without it; `Truncated`,
        if it does not.
        """
        ...

    def end(self, partition: str) -> int:
        """One past the last offset that can be read now, or could a few milliseconds ago; asked again and again."""
        ...

    def ended(self, partition: str) -> bool:
        """Whether nothing will ever come after `end`."""
        ...

    def identity(self, partition: str, upto: int) -> str:
        """Tells this partition, up to this offset, from every other: another string means an altered log."""
        ...

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The records at [start, stop), in the columns of `records.log_schema(self.fields)`."""
        ...

    def close(self) -> None: ...


class SourceConfig(Protocol):
    """What a source plug-in registers: a pydantic model with a `type`, and the log that it opens.

    A run keeps to its source's options, but for fields with `json_schema_extra={"may_change": True}`: an address, say.
    """

    type: str

    def open(self, context: OpenContext) -> Log: ...

    @property
    def bounded(self) -> bool:
        """Whether a run of it stops at the end of the log unless told otherwise."""
        ...

    @property
    def fields(self) -> Iterable[str]:
        """The names of the columns that its log yields, `time` perhaps among them; known without opening it."""
        ...

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        """What can be found wrong without reading, such as a missing file: the option's name, and what to do."""
        ...

    def reads(self, context: OpenContext, location: str) -> bool:
        """Whether rows that a sink writes to this location would come back as records."""
        ...


class Sink(Protocol):
    """Where an output goes. It appends what it is given: dropping what it has is the guard's work, never the sink's."""

    @property
    def keeps(self) -> bool:
        """Whether rows stay until they are cleared; if not, they may be removed in time, and the mark with them."""
        ...

    def progress(self) -> Progress | None:
        """What it holds, durable with its rows; None if nothing was ever appended."""
        ...

    def append(self, rows: pa.Table, progress: Progress) -> None:
        """Add rows (perhaps none) and the mark, in one atomic step; durable on return where there are rows.

        The same epoch again, or a lower one, is appended like any other.
        """
        ...

    def read(self) -> Iterator[pa.Table]:
        """All rows that a reader of it sees, in the order they were appended; asked after `close` too."""
        ...

    def close(self) -> None:
        """A clean end: what is open becomes plain files, and nothing is appended any more."""
        ...

    def abandon(self) -> None:
        """An end that is not clean, perhaps after `close`: let go of locks and connections, write nothing."""
        ...


class SinkConfig(Protocol):
    """What a sink plug-in registers: a pydantic model with a `type`, and the sink that it opens for one output."""

    type: str

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> Sink:
        """Open it for the one run that appends.

        `identity` has the columns that tell one row from another. `guarded`: a guard will rely on its marks; if not,
        rows and mark need not be one step.
        """
        ...

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """What `Sink.read` gives, beside a run that may be appending; changes nothing."""
        ...

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        """What can be found wrong without opening it: the option's name, and what to do."""
        ...

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        """What `Sink.progress` gives, without opening it for a run; changes nothing."""
        ...

    def location(self, context: OpenContext, output: str) -> str:
        """Where the rows lie, for people; two outputs of a config may not have the same."""
        ...

    def may_clear(self, context: OpenContext, output: str) -> None:
        """Refuse what `clear` would refuse, before anything is moved; changes nothing."""
        ...

    def clear(self, context: OpenContext, output: str) -> None:
        """Start over: move away or delete all rows (`--fresh`); called only if `progress` is of this run, or None."""
        ...

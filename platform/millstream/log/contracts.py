"""The contracts of connectors: sources, which open logs to read, and sinks, which open outputs to write.

A plug-in registers a config class (`SourceConfig` or `SinkConfig`). The config opens the object that does the work
(`Log` or `Sink`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from millstream.digests import Digest

__all__ = ["Log", "OpenContext", "Partition", "Progress", "Sink", "SinkConfig", "SourceConfig"]


@dataclass(frozen=True)
class OpenContext:
    """The surroundings in which a connector is opened."""

    folder: Path
    """The folder that relative paths in the config start from."""
    cache: Path
    """For a source: a folder for its own files, which is safe to delete. For a sink: the run directory."""
    pipeline: str = ""
    """The pipeline's name, to make names outside the run directory unique, such as the name of a consumer group."""
    fail_fast: bool = False
    """True if a command only reads and a user waits for the answer: do not wait for a server that is unavailable."""
    stopped: Callable[[], bool] = lambda: False
    """Returns true once the run has been asked to stop: stop waiting for a server then, too."""


@dataclass(frozen=True)
class Partition:
    """One partition of a log.

    `name` never changes. `number` is the value of `_partition` for the records of this partition; None: partitions are
    numbered in the order of their first appearance.
    """

    name: str
    number: int | None = None


@dataclass(frozen=True)
class Progress:
    """The progress of a sink: the sink holds the rows of the epoch log with the id `log` up to the epoch `epoch`.

    `rows` and `digest` are sums over all rows that were ever appended under this epoch log, repeated rows included.
    `term` is that of the driver that appended last.

    >>> Progress.from_line(Progress("some epoch log", 3).line())
    Progress(log='some epoch log', epoch=3, term=0, rows=0, digest='0-00000000000000000000000000000000')
    """

    log: str
    epoch: int
    term: int = 0
    rows: int = 0
    digest: str = str(Digest())

    def line(self) -> dict[str, Any]:
        """The progress as a JSON object."""
        return asdict(self)

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> Progress:
        return Progress(str(line["log"]), int(line["epoch"]), int(line["term"]), int(line["rows"]), str(line["digest"]))


class Log(Protocol):
    """An open source: partitions of records, each with an offset.

    Records can be read again: reading a range a second time gives the same records. Offsets may have gaps, so the
    number of records in a range may be smaller than the length of the range. `read` may be called in another thread
    than the other methods; or in another process, on another log that the same config has opened.
    """

    @property
    def fields(self) -> Sequence[str]:
        """The names of the columns that `read` yields in addition to `_offset`, `_time` and `_reject`."""
        ...

    def partitions(self) -> Sequence[Partition]:
        """All partitions that exist now. New partitions get their numbers in this order."""
        ...

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        """The first offset to read of a partition that the run has not read yet.

        `joined` is true if the partition appeared after the run had begun to read the source.
        """
        ...

    def resume(self, partition: str, wanted: int) -> int:
        """The offset at which reading continues after the run has read up to `wanted`: normally `wanted` itself.

        If the records at `wanted` have been removed: the offset of the first record that is left, if the config allows
        skipping; otherwise raise `Truncated`.
        """
        ...

    def end(self, partition: str) -> int:
        """One past the last offset that can be read. It may be a few milliseconds old. A run calls this frequently."""
        ...

    def is_current(self, partition: str) -> bool:
        """False if the last `end` was out of date, because the server does not answer: the partition is not silent."""
        ...

    def ended(self, partition: str) -> bool:
        """True if no record will ever be appended after `end`."""
        ...

    def identity(self, partition: str, upto: int) -> str:
        """A string that identifies the partition and its records before the offset `upto`.

        If a later call with the same arguments returns another string, the run stops, because the log was altered.
        """
        ...

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The records at the offsets [start, stop), in the columns of `records.log_schema(self.fields)`."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class SourceConfig(Protocol):
    """The config of a source, which a plug-in registers: a pydantic model with a `type`; it opens a log.

    The options of a source must not change between two starts of a run. Exceptions are fields with
    `json_schema_extra={"may_change": True}`, such as the address of a server.
    """

    @property
    def type(self) -> str: ...

    def open(self, context: OpenContext) -> Log:
        """Open the log."""
        ...

    @property
    def bounded(self) -> bool:
        """True if a run stops at the end of the log, unless the command line has `--follow`."""
        ...

    @property
    def fields(self) -> Iterable[str]:
        """The fields of the log's records, known without opening the log; unlike `Log.fields`, `time` is included."""
        ...

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        """Problems that can be found without reading, such as a missing file: for each the option and a message."""
        ...

    def reads(self, context: OpenContext, location: str) -> bool:
        """True if this source would read the rows that a sink writes to `location` (see `SinkConfig.location`)."""
        ...


class Sink(Protocol):
    """An open sink: it appends the rows of one output.

    A sink appends all rows that it gets. It never compares epochs to drop repeated rows: the guard does so before it
    calls the sink.
    """

    @property
    def keeps(self) -> bool:
        """True if rows stay until `SinkConfig.clear`; false if rows and progress may be removed after some time."""
        ...

    def progress(self) -> Progress | None:
        """The progress that was appended last, stored atomically with the rows; None if nothing was ever appended.

        Disturbs no other writer.
        """
        ...

    def fence(self, term: int) -> Progress | None:
        """Shut out all earlier writers, and return the progress that counts; called once before the first append.

        After it, nothing that a writer of an earlier start has prepared or still sends becomes visible.
        """
        ...

    def append(self, rows: pa.Table, progress: Progress) -> None:
        """Append rows and store the progress, both in one atomic step.

        If there are rows, rows and progress are durable on return. A call may have no rows: then the progress may
        become durable with the next rows or at `close`. An epoch that is equal to or lower than the last one is
        appended like any other.
        """
        ...

    def read(self) -> Iterator[pa.Table]:
        """All rows that a reader of the sink sees, in the order in which they were appended; also after `close`."""
        ...

    def close(self) -> None:
        """End cleanly: finish open files so that other programs can read them. `append` is not called after it."""
        ...

    def abandon(self) -> None:
        """End without a clean end, also after `close`: release locks and connections, write nothing."""
        ...


class SinkConfig(Protocol):
    """The config of a sink, which a plug-in registers: a pydantic model with a `type`.

    It opens one sink for each output that the config sends to it.
    """

    @property
    def type(self) -> str: ...

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> Sink:
        """Open the sink for the one run that appends to it.

        `identity`: the columns whose values identify a row. `guarded`: true if a guard relies on the sink's progress;
        if false, rows and progress need not be stored in one atomic step.
        """
        ...

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """The same rows as `Sink.read`, while a run may be appending; changes nothing."""
        ...

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        """Problems that can be found without opening the sink: for each the option and a message."""
        ...

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        """The same as `Sink.progress`, without opening the sink for a run; changes nothing."""
        ...

    def location(self, context: OpenContext, output: str) -> str:
        """The address of the rows, as users read it, such as a path or a URL; unique among the outputs of a config."""
        ...

    def may_clear(self, context: OpenContext, output: str) -> None:
        """Raise the error that `clear` would raise; called before `--fresh` moves anything. Changes nothing."""
        ...

    def clear(self, context: OpenContext, output: str) -> None:
        """Move away or delete all rows and the progress, for `--fresh`.

        Called only if the progress belongs to this run, or if there is none.
        """
        ...

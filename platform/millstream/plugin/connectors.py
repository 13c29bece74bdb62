"""The base classes of logs, which sources open, and of sinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa

from millstream.digests import Digest, digest_of
from millstream.log.contracts import OpenContext, Partition, Progress, SinkConfig

__all__ = ["Log", "Sink"]

_ONLY = "0"


class Log(ABC):
    """An open source: partitions of records, each with an offset. `millstream.log.contracts` has the whole contract.

    A subclass defines `end` and `read`. Without more it is a log of one partition that begins at offset 0. Reading a
    range a second time gives the same records, also in another process; `read` may be called in another thread than
    the other methods.

    >>> from millstream.records import log_schema
    >>> class Words(Log):
    ...     def end(self, partition):
    ...         return 3
    ...     def read(self, partition, start, stop):
    ...         rows = [{"_offset": offset, "text": f"word{offset}"} for offset in range(start, stop)]
    ...         yield pa.RecordBatch.from_pylist(rows, schema=log_schema(self.fields))
    >>> [batch["text"].to_pylist() for batch in Words().read("0", 1, 3)]
    [['word1', 'word2']]
    """

    fields: Sequence[str] = ("text", "label")
    """The names of the fields of a record, without `time`."""

    def partitions(self) -> Sequence[Partition]:
        """All partitions that exist now."""
        return [Partition(_ONLY, 0)]

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        """The first offset to read of a partition that the run has not read yet."""
        return 0

    def resume(self, partition: str, wanted: int) -> int:
        """The offset at which reading continues; raise `Truncated` if the records at `wanted` were removed."""
        return wanted

    @abstractmethod
    def end(self, partition: str) -> int:
        """One past the last offset that can be read. A run calls this frequently."""

    def is_current(self, partition: str) -> bool:
        """False if the last `end` was out of date, because the server does not answer."""
        return True

    def ended(self, partition: str) -> bool:
        """True if no record will ever be appended after `end`."""
        return False

    def identity(self, partition: str, upto: int) -> str:
        """A string that identifies the records before the offset `upto`, so that a run refuses an altered log.

        This default reads all of these records; a subclass for large logs has a cheaper identity.
        """
        digest = Digest()
        begin = self.beginning(partition)
        if upto > begin:
            digest = sum(
                (digest_of(pa.Table.from_batches([batch])) for batch in self.read(partition, begin, upto)), digest
            )
        return str(digest)

    @abstractmethod
    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The records at the offsets [start, stop), in the columns of `log_schema(self.fields)`."""

    def close(self) -> None:
        """Close files and connections."""
        return


class Sink(ABC):
    """An open sink: it appends the rows of one output. `millstream.log.contracts` has the whole contract.

    A subclass defines `append`. It also defines `fence`, unless a lock or the store itself shuts out a second writer;
    and `abandon`, if something has to be closed.
    """

    keeps = True
    """False if rows and progress may be removed after some time, as by a topic's retention."""

    def __init__(self, config: SinkConfig, context: OpenContext, output: str, schema: pa.Schema) -> None:
        self.config, self.context, self.output, self.schema = config, context, output, schema

    def progress(self) -> Progress | None:
        """The progress that was appended last; None if nothing was ever appended."""
        return self.config.progress(self.context, self.output)

    def fence(self, term: int) -> Progress | None:
        """Shut out all earlier writers, and return the progress; called once before the first append.

        After it, nothing that a writer of an earlier start still sends becomes visible.
        """
        return self.progress()

    @abstractmethod
    def append(self, rows: pa.Table, progress: Progress) -> None:
        """Append the rows and store the progress, both in one atomic step that is durable on return.

        The same epoch again, or a lower one, is appended like any other.
        """

    def read(self) -> Iterator[pa.Table]:
        """All rows, in the order in which they were appended; also after `close`."""
        return self.config.read(self.context, self.output, self.schema)

    def close(self) -> None:
        """End cleanly: finish open files so that other programs can read them."""
        self.abandon()

    def abandon(self) -> None:
        """Release locks and connections, and write nothing; also after `close`."""
        return

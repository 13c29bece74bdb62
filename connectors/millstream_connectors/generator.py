"""The generator source: labelled documents from a seed, for first steps and for benchmarks."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from millstream.config.durations import Duration
from millstream.log.contracts import OpenContext, Partition
from millstream.log.journal.durability import make_folder, write_whole
from millstream.timestamps import in_utc, micros_of
from millstream_connectors.generator_text import TOPICS, Documents

__all__ = ["GeneratorLog", "GeneratorSource"]

_FORMAT = 1  # raise it with every change that makes other documents from the same config
_ENDLESS = 10**10
"""Records in a partition that never ends: three centuries of event time."""
_PERIOD = 50_000


def _utc(start: datetime) -> datetime:
    if not 1000 <= start.year < 9000:
        message = f"{start.isoformat()} is not in the years 1000 to 8999"
        raise ValueError(message)
    return in_utc(start)


class GeneratorSource(BaseModel):
    """Short labelled documents, made as they are read and always the same: for first steps and for benchmarks.

    A document has 8 to 20 words; most are common ones or noise, some belong to its topic, which is its label. One of
    the topics is `space`: 5 % of the records, rising to 25 % in the middle of `records` and falling back (of an
    endless stream: every 50,000 records). A second passes from each record of a partition to the next, with a little
    disorder.

    Without `rate` all records are there at once. With `rate` they arrive as time passes, also while nothing reads them,
    and a run follows them until it is stopped. A run that begins later in the log, as one that continues a registered
    model or a fork, finds the records before its first one there.

    >>> log = GeneratorSource(seed=7, topics=4).open(OpenContext(folder=Path(), cache=Path()))
    >>> log.end("0")
    50000
    >>> record = next(log.read("0", 41_000, 41_010)).to_pylist()[1]
    >>> record["label"], record["text"][:40]
    ('sport', 'in kikijor nehican what at honaha badima')
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["generator"] = "generator"
    seed: int = Field(default=1, ge=0, lt=2**64, description="Another seed gives other documents.")
    records: int | None = Field(
        default=50_000, ge=1, le=_ENDLESS, description="The number of all records; null is endless."
    )
    topics: int = Field(default=8, ge=1, le=len(TOPICS), description="The number of topics.")
    partitions: int = Field(default=1, ge=1, le=1024, description="The number of partitions of the log.")
    rate: float | None = Field(
        default=None,
        gt=0,
        le=1e7,
        description="Records a second, from the first record of the run on; null is all at once.",
    )
    start: Annotated[datetime, AfterValidator(_utc)] = Field(
        default=datetime(2024, 1, 1, tzinfo=UTC), description="The time of the first records; UTC without a zone."
    )
    unlabelled: float = Field(default=0.0, ge=0, le=1, description="The share of records without a label.")
    drift: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="The share of each topic's words that is replaced by new words within 10,000 records.",
    )
    ahead: Duration | None = Field(
        default=None,
        ge=0,
        description="A record whose time is later than the clock by more than this becomes a reject. The default is "
        "`null`, never: the times are generated.",
    )

    def open(self, context: OpenContext) -> GeneratorLog:
        return GeneratorLog(self, context.cache)

    @property
    def bounded(self) -> bool:
        return self.records is not None and self.rate is None

    @property
    def fields(self) -> Sequence[str]:
        return ["text", "label", "time"]

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        return ()

    def reads(self, context: OpenContext, location: str) -> bool:
        return False


class GeneratorLog:
    """The documents of a `GeneratorSource`, as a log.

    With a `rate`, the end of the log follows `clock` from a time that is kept in the file `began` of the cache; only
    `end` and `resume` read this file.
    """

    def __init__(self, config: GeneratorSource, cache: Path, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._began = cache / "began"
        self._clock = clock
        self._start: float | None = None
        self._arrived = 0  # the highest number of records so far: a clock that is set back removes none
        self._documents = Documents(
            seed=config.seed,
            topics=config.topics,
            partitions=config.partitions,
            unlabelled=config.unlabelled,
            drift=config.drift,
            start=micros_of(config.start),
            period=config.records or _PERIOD,
        )

    @property
    def fields(self) -> Sequence[str]:
        return ["text", "label"]

    def partitions(self) -> Sequence[Partition]:
        return [Partition(str(number), number) for number in range(self._config.partitions)]

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        return 0

    def resume(self, partition: str, wanted: int) -> int:
        rate = self._config.rate
        if rate is not None and wanted > self.end(partition) and wanted <= self._total(partition):
            self._arrived = (wanted - 1) * self._config.partitions + int(partition) + 1  # they were read, so they exist
            self._begin(self._clock() - self._arrived / rate)
        return wanted

    def end(self, partition: str) -> int:
        return min(self._total(partition), self._share(self._available(), partition))

    def is_current(self, partition: str) -> bool:
        return True

    def ended(self, partition: str) -> bool:
        return self._config.records is not None and self.end(partition) == self._total(partition)

    def identity(self, partition: str, upto: int) -> str:
        """A digest of everything that the documents of the partition depend on."""
        depends = json.dumps([_FORMAT, partition, vars(self._documents)], sort_keys=True)
        return hashlib.sha256(depends.encode()).hexdigest()[:32]

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for first, last in self._documents.ranges(start, stop):
            yield self._documents.make(int(partition), first, last)

    def close(self) -> None:
        pass

    def _total(self, partition: str) -> int:
        """The final end of the partition."""
        return _ENDLESS if self._config.records is None else self._share(self._config.records, partition)

    def _share(self, records: int, partition: str) -> int:
        """The partition's share of the first `records` of the log: records go to the partitions in turn."""
        return -((int(partition) - records) // self._config.partitions)

    def _available(self) -> int:
        if self._config.rate is None:
            return self._config.records or _ENDLESS * self._config.partitions
        if self._start is None:
            if not self._began.exists():
                self._begin(self._clock())
            self._start = float(self._began.read_text())
        self._arrived = max(self._arrived, int((self._clock() - self._start) * self._config.rate))
        return self._arrived

    def _begin(self, start: float) -> None:
        make_folder(self._began.parent)
        write_whole(self._began, repr(start))
        self._start = None

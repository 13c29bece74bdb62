"""Sinks that keep their rows in memory, through every crash of a simulated run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pyarrow as pa

from millstream.engines.simulated.world.world import World
from millstream.errors import MillstreamError
from millstream.log.contracts import Progress

__all__ = ["MemorySink", "SinkContent"]


class SinkContent:
    """The content of a sink: its appends with their epochs, and its progress.

    Progress without rows is durable only with the next append that has rows. `writer` is the sink that may append.
    With `expires`, a reader's rows and the progress may be removed; `appends` still has all rows, for the checker.
    With `restored`, an old copy may replace the content: the last appends are then gone, and progress with them.
    """

    def __init__(self, schema: pa.Schema, *, expires: bool = False, restored: bool = False) -> None:
        self.schema, self.expires, self.restored = schema, expires, restored
        self.appends: list[tuple[int, pa.Table]] = []
        self._copies: list[Progress] = []
        """The progress of each append."""
        self.progress: Progress | None = None
        self.writer: MemorySink | None = None
        self._durable: Progress | None = None

    def add(self, rows: pa.Table, progress: Progress) -> None:
        self.appends.append((progress.epoch, rows))
        self._copies.append(progress)
        self.progress = progress
        if rows.num_rows:
            self._durable = progress

    def sync(self) -> None:
        self._durable = self.progress

    def crash(self, rng: random.Random) -> None:
        """Perhaps lose progress without rows, which sinks write with the next rows or when they are closed."""
        if rng.random() < 0.5:
            self.progress = self._durable
        self._durable = self.progress

    def expire(self) -> None:
        """Lose the progress together with all rows."""
        self.progress = self._durable = None

    def restore(self, rng: random.Random, base: int) -> None:
        """Put the content back to that after one of its appends, whose epoch is the base or a later one."""
        copies = [index for index, progress in enumerate(self._copies) if progress.epoch >= base]
        if copies:
            index = rng.choice(copies)
            del self.appends[index + 1 :], self._copies[index + 1 :]
            self.progress = self._durable = self._copies[index]

    @property
    def last(self) -> int:
        """The epoch of the last append; -1 without appends."""
        return self.appends[-1][0] if self.appends else -1

    def rows(self) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *(rows for _, rows in self.appends)])


class MemorySink:
    """The sink of one start of a run; `appended` is called with the epoch of each append."""

    def __init__(self, output: str, content: SinkContent, world: World, appended: Callable[[int], None]) -> None:
        self._output, self._content, self._world, self._appended = output, content, world, appended
        self._open = True

    @property
    def keeps(self) -> bool:
        return not self._content.expires

    def progress(self) -> Progress | None:
        return self._content.progress

    def fence(self, term: int) -> Progress | None:
        self._content.writer = self
        return self.progress()

    def append(self, rows: pa.Table, progress: Progress) -> None:
        if not self._open or self._content.writer is not self:
            message = f"rows of epoch {progress.epoch} are appended to the sink of {self._output}, which is closed"
            raise MillstreamError(message)

        def do() -> None:
            self._content.add(rows, progress)
            self._appended(progress.epoch)

        self._world.effect(lambda: f"{self._output} gets {rows.num_rows} rows, up to epoch {progress.epoch}", do)

    def read(self) -> Iterator[pa.Table]:
        yield self._content.rows()

    def close(self) -> None:
        self._world.effect(lambda: f"{self._output} is closed", self._content.sync)
        self._open = False

    def abandon(self) -> None:
        self._open = False

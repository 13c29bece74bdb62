"""Sinks that break a rule, for the checks of sinks: importable in the process that the checks kill."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
from support.plugin_classes import RowFile, RowFileSink

from millstream.plugin import OpenContext, Progress, json_lines

__all__ = [
    "AppendsLater",
    "AppendsUnfenced",
    "BeginsWithProgress",
    "ChangesProgress",
    "ClearsAllOutputs",
    "ClearsNothing",
    "DropsLowerEpochs",
    "KeepsProgress",
    "NeedsAGuard",
    "OneFile",
    "RepeatsRows",
    "RowsThenProgress",
    "ShowsHalf",
]


class _Broken(RowFile):
    """A sink that opens another class than the correct one."""

    sink: ClassVar[type[RowFileSink]] = RowFileSink

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> RowFileSink:
        return self.sink(self, context, output, schema)


class _TwoWrites(RowFileSink):
    def append(self, rows: pa.Table, progress: Progress) -> None:
        held, lines = self.held()
        self.write(held, lines + json_lines(rows))
        self.write(progress, lines + json_lines(rows))


class RowsThenProgress(_Broken):
    """Writes the rows, and then the progress."""

    sink = _TwoWrites


class _OneLate(RowFileSink):
    _waiting: tuple[Progress, bytes] | None = None

    def append(self, rows: pa.Table, progress: Progress) -> None:
        self._write_waiting()
        self._waiting = (progress, json_lines(rows))

    def progress(self) -> Progress | None:
        return super().progress() if self._waiting is None else self._waiting[0]

    def read(self) -> Iterator[pa.Table]:
        self._write_waiting()
        return super().read()

    def close(self) -> None:
        self._write_waiting()

    def _write_waiting(self) -> None:
        if self._waiting is not None:
            progress, waiting = self._waiting
            self.write(progress, self.held()[1] + waiting)
            self._waiting = None


class AppendsLater(_Broken):
    """Writes the rows of an epoch with those of the next one."""

    sink = _OneLate


class _HigherOnly(RowFileSink):
    def append(self, rows: pa.Table, progress: Progress) -> None:
        held = self.progress()
        if held is None or progress.epoch > held.epoch:
            super().append(rows, progress)


class DropsLowerEpochs(_Broken):
    """Leaves out epochs that are not higher than the last one."""

    sink = _HigherOnly


class _NoFence(RowFileSink):
    def append(self, rows: pa.Table, progress: Progress) -> None:
        number, _, lines = self.config.content(self.context)
        self.number = number
        self.write(progress, lines + json_lines(rows))


class AppendsUnfenced(_Broken):
    """Appends rows also after another start has fenced the sink."""

    sink = _NoFence


class KeepsProgress(_Broken):
    """Keeps the progress when it is cleared."""

    def clear(self, context: OpenContext, output: str) -> None:
        number, progress, _ = self.content(context)
        if progress is not None and progress.epoch == 2:
            self.file(context).write_bytes(json.dumps([number, progress.line()]).encode() + b"\n")
        else:
            super().clear(context, output)


class BeginsWithProgress(_Broken):
    """Has a progress before the first append."""

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        return super().progress(context, output) or Progress("no log", -1)


class _NoSums(RowFileSink):
    def append(self, rows: pa.Table, progress: Progress) -> None:
        super().append(rows, replace(progress, rows=0))


class ChangesProgress(_Broken):
    """Stores the progress without its number of rows."""

    sink = _NoSums


class _Twice(RowFileSink):
    def append(self, rows: pa.Table, progress: Progress) -> None:
        super().append(rows if rows.num_rows else self.schema.empty_table(), progress)
        if not rows.num_rows:
            held, lines = self.held()
            self.write(held, lines + lines)


class RepeatsRows(_Broken):
    """Writes all rows again with an epoch that has none."""

    sink = _Twice


class _Silent(RowFileSink):
    def append(self, rows: pa.Table, progress: Progress) -> None:
        super().append(rows.slice(0, 0), progress)


class NeedsAGuard(_Broken):
    """Appends no rows if no guard relies on its progress."""

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> RowFileSink:
        return (RowFileSink if guarded else _Silent)(self, context, output, schema)


class _Halves(RowFileSink):
    def append(self, rows: pa.Table, progress: Progress) -> None:
        _, lines = self.held()
        self.write(progress, lines + json_lines(rows.slice(0, 1)))
        self._wait_for_reader()
        self.write(progress, lines + json_lines(rows))

    def _wait_for_reader(self) -> None:
        """Wait until a reader in another thread, if there is one, has read the file."""
        before = ShowsHalf.reads
        readers = [one for one in threading.enumerate() if type(one).__name__ == "_Reader"]
        while ShowsHalf.reads < before + 2 and any(reader.is_alive() for reader in readers):
            time.sleep(0.001)


class ShowsHalf(_Broken):
    """Writes the rows of an epoch one after the other."""

    sink = _Halves
    reads: ClassVar[int] = 0

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        yield from super().read(context, output, schema)
        ShowsHalf.reads += 1


class _ByOutput(RowFile):
    """One file for each output."""

    def of(self, output: str) -> RowFile:
        return RowFile(path=f"{self.path}-{output}")

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> RowFileSink:
        return self.of(output).open(context, output, schema, identity=identity, guarded=guarded)

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        return self.of(output).read(context, output, schema)

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        return self.of(output).progress(context, output)

    def location(self, context: OpenContext, output: str) -> str:
        return self.of(output).location(context, output)

    def clear(self, context: OpenContext, output: str) -> None:
        self.of(output).clear(context, output)


class ClearsAllOutputs(_ByOutput):
    """Deletes the rows of all outputs."""

    def clear(self, context: OpenContext, output: str) -> None:
        for file in context.folder.glob(f"{self.path}-*"):
            file.unlink()


class OneFile(RowFile):
    """Ignores the name of the output, except in the location."""

    def location(self, context: OpenContext, output: str) -> str:
        return f"{self.file(context)}, {output}"


class ClearsNothing(RowFile):
    """Leaves all rows where they are."""

    def clear(self, context: OpenContext, output: str) -> None:
        return

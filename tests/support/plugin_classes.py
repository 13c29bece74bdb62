"""A source, a sink, a step and a model that a config names by their classes, and classes that are no such plug-ins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.plugin import (
    Array,
    InUse,
    Log,
    Model,
    ModelConfig,
    OpenContext,
    Progress,
    Result,
    Scope,
    Sink,
    SinkConfig,
    SourceConfig,
    State,
    Step,
    StepConfig,
    Traits,
    json_lines,
    log_schema,
    table_of,
)

__all__ = ["HalfSink", "LengthModel", "Letters", "NoPlugin", "OwnType", "RowFile", "RowFileSink", "Upper"]

COUNT = 3


class Letters(SourceConfig):
    """Texts of one to nine letters, with the letter as their label."""

    records: int = 60

    def open(self, context: OpenContext) -> LettersLog:
        return LettersLog(self.records)


class LettersLog(Log):
    def __init__(self, records: int) -> None:
        self._records = records

    def end(self, partition: str) -> int:
        return self._records

    def ended(self, partition: str) -> bool:
        return True

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        rows = [
            {"_offset": offset, "text": "abc"[offset % 3] * (1 + offset % 9), "label": "abc"[offset % 3]}
            for offset in range(start, stop)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=log_schema(self.fields))


class Upper(StepConfig):
    """Adds `upper`, the text in capital letters."""

    def build(self, records: pa.Schema) -> UpperStep:
        return UpperStep(records)


class UpperStep(Step):
    traits = Traits(Scope.STATELESS, ordered=False, idempotent=True, only_adds=True)

    def process(self, records: pa.Table) -> Result:
        return Result(records.append_column("upper", pc.utf8_upper(records["text"])))


class LengthModel(ModelConfig):
    """Predicts the label whose texts have the nearest mean length."""

    power: float = 1.0

    def build(self, records: pa.Schema) -> Means:
        return Means(self.power)


class Means(Model):
    def __init__(self, power: float) -> None:
        self._power = power
        self._sums: Array
        self._counts: Array
        super().__init__()

    def prepare(self, column: pa.Array) -> Any:
        return pc.utf8_length(column).to_numpy(zero_copy_only=False)

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        distances = np.abs(inputs[:, None] - self._sums / self._counts) ** self._power
        return distances.argmin(axis=1), 1 / (1 + distances.min(axis=1))

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        new = (0, classes - len(self._counts))
        self._sums = np.pad(self._sums, new) + np.bincount(labels, inputs, classes)
        self._counts = np.pad(self._counts, new) + np.bincount(labels, minlength=classes)

    def save(self) -> State:
        return {"sums": self._sums.copy(), "counts": self._counts.copy()}

    def restore(self, state: State) -> None:
        self._sums = np.array(state.get("sums", []), np.float64)
        self._counts = np.array(state.get("counts", []), np.int64)


class RowFile(SinkConfig):
    """All rows and the progress in one file, which every append writes again: for few rows."""

    path: str

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> RowFileSink:
        return RowFileSink(self, context, output, schema)

    def file(self, context: OpenContext) -> Path:
        return context.folder / self.path

    def content(self, context: OpenContext) -> tuple[int, Progress | None, bytes]:
        """The number of the last start, the progress, and the rows as JSON lines."""
        if not self.file(context).exists():
            return 0, None, b""
        head, _, lines = self.file(context).read_bytes().partition(b"\n")
        number, stored = json.loads(head)
        return number, None if stored is None else Progress.from_line(stored), lines

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        yield table_of(self.content(context)[2], schema)

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        return self.content(context)[1]

    def location(self, context: OpenContext, output: str) -> str:
        return str(self.file(context))

    def clear(self, context: OpenContext, output: str) -> None:
        self.file(context).unlink(missing_ok=True)


class RowFileSink(Sink):
    config: RowFile
    number = 0

    def fence(self, term: int) -> Progress | None:
        number, progress, lines = self.config.content(self.context)
        self.number = number + 1
        self.write(progress, lines)
        return progress

    def append(self, rows: pa.Table, progress: Progress) -> None:
        self.write(progress, self.held()[1] + json_lines(rows))

    def held(self) -> tuple[Progress | None, bytes]:
        """The progress and the rows in the file, which no other run has fenced."""
        number, progress, lines = self.config.content(self.context)
        if number != self.number:
            raise InUse("another run appends to this file now")
        return progress, lines

    def write(self, progress: Progress | None, lines: bytes) -> None:
        file = self.config.file(self.context)
        head = json.dumps([self.number, None if progress is None else progress.line()]).encode()
        new = file.with_suffix(".new")
        with new.open("wb") as whole:
            whole.write(head + b"\n" + lines)
            whole.flush()
            os.fsync(whole.fileno())
        new.rename(file)


class NoPlugin:
    """A class that is no plug-in."""


class HalfSink(SinkConfig):
    """A sink without most of its methods."""

    def location(self, context: OpenContext, output: str) -> str:
        return "nowhere"


class OwnType(ModelConfig):
    """A model that declares its type as one behind an entry point does."""

    type: Literal["own"] = "own"

    def build(self, records: pa.Schema) -> Means:
        return Means(1.0)

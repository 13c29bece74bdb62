"""The checks of sources: a correct source passes all of them, and each check finds a broken source."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pydantic import field_validator

from millstream.log.contracts import OpenContext, Partition
from millstream.plugin import Log, SourceConfig, log_schema
from millstream.plugin.checks import SOURCE_CHECKS, check_source
from millstream.plugin.checks.sources import SourceTrial


class Lines(SourceConfig):
    """The lines of a file."""

    path: str = "lines"
    log: ClassVar[Any]

    def open(self, context: OpenContext) -> LinesLog:
        log: LinesLog = self.log(context.folder / self.path)
        return log


class LinesLog(Log):
    """The lines of a file that may grow; two partitions, of even and of odd lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, partition: str) -> list[str]:
        return self.path.read_text().splitlines()[int(partition) :: 2]

    def partitions(self) -> Sequence[Partition]:
        return [Partition("0", 0), Partition("1", 1)]

    def end(self, partition: str) -> int:
        return len(self.lines(partition))

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for offset in range(start, min(stop, len(self.lines(partition))), 7):
            last = min(offset + 7, stop)
            rows = [{"_offset": at, **self.row(partition, at)} for at in range(offset, last)]
            yield pa.RecordBatch.from_pylist(rows, schema=log_schema(self.fields))

    def row(self, partition: str, offset: int) -> dict[str, Any]:
        return {"text": self.lines(partition)[offset]}


Lines.log = LinesLog


class Forgets(Lines):
    """Does not keep one of its options as it was given."""

    times: int = 3

    @field_validator("times")
    @classmethod
    def _once_more(cls, times: int) -> int:
        return times + 1


class OtherFields(LinesLog):
    fields = ("text", "title")


class CountsReads(LinesLog):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads = itertools.count()

    def row(self, partition: str, offset: int) -> dict[str, Any]:
        return {"text": f"{next(self.reads) // 150}"}


class ReadsTooFar(LinesLog):
    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition, start, min(self.end(partition), stop + 1))


class LosesLastOfPieces(LinesLog):
    """Reads in blocks of seven, of which it yields only those that are whole or last."""

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        last = stop if stop == self.end(partition) else stop - stop % 7
        yield from super().read(partition, start, max(start, last))


class SharesPosition(LinesLog):
    """Keeps the position of a read in the log."""

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        self.at = start
        while self.at < stop:
            rows = [{"_offset": self.at, **self.row(partition, self.at)}]
            self.at += 1
            yield pa.RecordBatch.from_pylist(rows, schema=log_schema(self.fields))


class DependsOnTheLog(LinesLog):
    made = itertools.count()

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.number = next(self.made)

    def row(self, partition: str, offset: int) -> dict[str, Any]:
        return {"text": f"{self.number}"}


class NeverEmpty(LinesLog):
    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition, start, stop if stop > start else start + 1)


class ResumesLate(LinesLog):
    def resume(self, partition: str, wanted: int) -> int:
        return wanted + 1


class IdentifiesTheLog(LinesLog):
    def identity(self, partition: str, upto: int) -> str:
        return f"{id(self)}"


class IdentifiesTheWhole(LinesLog):
    def identity(self, partition: str, upto: int) -> str:
        return super().identity(partition, self.end(partition))


class RenamesPartitions(LinesLog):
    calls = itertools.count()

    def partitions(self) -> Sequence[Partition]:
        return [Partition(f"{next(self.calls) % 2}")]


class NamesPartitions(LinesLog):
    def partitions(self) -> Any:
        return ["0", "1"]


class YieldsTables(LinesLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        for batch in super().read(partition, start, stop):
            yield pa.Table.from_batches([batch])


class RejectsSilently(LinesLog):
    def row(self, partition: str, offset: int) -> dict[str, Any]:
        return {} if offset == 3 else super().row(partition, offset)


class SameIdentity(LinesLog):
    def identity(self, partition: str, upto: int) -> str:
        return "lines"


class OwnColumns(LinesLog):
    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition, start, stop):
            yield batch.select(["_offset", "text"])


BROKEN_LOGS: list[tuple[type[LinesLog], str, str]] = [
    (
        OtherFields,
        "the_fields_are_declared",
        r"\['text', 'label'\] without `time`, and those of the log are \['text', 't",
    ),
    (RenamesPartitions, "the_fields_are_declared", r"returns \['0'\] and then \['1'\]; return every partition once"),
    (
        NamesPartitions,
        "methods_return_what_they_declare",
        r"returns '0' \(str\) in its list; return a list of `P",
    ),
    (YieldsTables, "methods_return_what_they_declare", r"\(Table\); yield record batches with the schema"),
    (
        RejectsSilently,
        "unreadable_records_have_a_reason",
        "at the offset 3 of '0' has no text and no reason; write",
    ),
    (SameIdentity, "identities_stay", "is 'lines' for all records of all partitions, too short for an id"),
    (CountsReads, "a_range_is_the_same_in_every_read", "'text': '0', then '1'; a range has the same records in ever"),
    (OwnColumns, "a_range_is_the_same_in_every_read", "make each batch with the schema `log_schema"),
    (ReadsTooFar, "a_range_can_be_read_in_pieces", "yields the offsets .* yield each offset of the range at most onc"),
    (LosesLastOfPieces, "a_range_can_be_read_in_pieces", "has other records when it is read in .* pieces: .* rows, th"),
    (SharesPosition, "reads_do_not_disturb_each_other", "keep the position of a read in the read itself"),
    (DependsOnTheLog, "a_copy_reads_the_same", "has other records in a second log of the same options"),
    (NeverEmpty, "an_empty_range_has_no_records", r"reading the offsets \[0, 0\) of the partition '0' yields 1 record"),
    (
        ResumesLate,
        "positions_are_offsets",
        "`resume` at 0 of '0' returns 1, and the record is there; return the wanted",
    ),
    (IdentifiesTheLog, "identities_stay", "in a second log; let the identity depend only on the partition"),
    (
        IdentifiesTheWhole,
        "a_log_is_read_beside_its_writer",
        "let the identity up to an offset not depend on later recor",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lines").write_text("".join(f"line {number}\n" for number in range(100)))
    return tmp_path


def append(folder: Path) -> None:
    with (folder / "lines").open("a") as file:
        file.write("one more line\n" * 4)


def test_a_correct_source_passes_all_checks(folder: Path) -> None:
    assert check_source(Lines(), folder, append=lambda: append(folder)) == ()


def test_without_a_function_that_appends_its_check_is_reported_as_skipped(folder: Path) -> None:
    assert check_source(Lines(), folder) == ("a_log_is_read_beside_its_writer",)
    trial = SourceTrial(Lines(), OpenContext(folder, folder / "caches" / "0", "checks"), None)
    with pytest.raises(AssertionError, match="nothing appends to its log; give `append`"):
        SOURCE_CHECKS["a_log_is_read_beside_its_writer"](trial)


@pytest.mark.parametrize(("log", "check", "message"), BROKEN_LOGS)
def test_the_check_finds_the_broken_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch, log: type[LinesLog], check: str, message: str
) -> None:
    monkeypatch.setattr(Lines, "log", log)
    (folder / "caches").mkdir()
    trial = SourceTrial(Lines(), OpenContext(folder, folder / "caches" / "0", "checks"), lambda: append(folder))
    with pytest.raises(AssertionError, match=f"(?s)Lines.*{message}"):
        SOURCE_CHECKS[check](trial)
    with pytest.raises(AssertionError, match=f"^{'|'.join(map(re.escape, SOURCE_CHECKS))}: "):
        check_source(Lines(), folder, append=lambda: append(folder))


def test_options_that_do_not_travel_are_found(folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"^options_travel_by_name: Forgets.* read back are Forgets.*times=5"):
        check_source(Forgets(times=3), folder)


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        (lambda: "no file", r"`problems` returns 'no file' \(str\); return a list of pairs, an option and a message"),
        (lambda: None, r"`problems` returns None \(NoneType\); return a list of pairs"),
        (lambda: 1 / 0, "`problems` failed: ZeroDivisionError: division by zero, at .*; mend it"),
        (
            lambda: [("path", "no file")],
            r"`problems` returns \[\('path', 'no file'\)\]; check a source without problems",
        ),
    ],
)
def test_wrong_problems_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, problems: Callable[[], Any], message: str
) -> None:
    monkeypatch.setattr(Lines, "problems", lambda self, context: problems())
    with pytest.raises(AssertionError, match=f"^methods_return_what_they_declare: .*{message}"):
        check_source(Lines(), folder)


def test_every_check_of_sources_fails_for_some_broken_source() -> None:
    assert {check for _, check, _ in BROKEN_LOGS} | {"options_travel_by_name"} == set(SOURCE_CHECKS)


def test_a_log_without_records_is_refused(folder: Path) -> None:
    (folder / "lines").write_text("")
    with pytest.raises(ValueError, match="need a few records, and the log of Lines"):
        check_source(Lines(), folder)

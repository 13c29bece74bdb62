"""A mistake in the code of a source: the error names the source, the method and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import millstream as ms
from millstream.plugin import Log, OpenContext, Partition, SourceConfig, log_schema


class Numbers(SourceConfig):
    """Texts with the number of their record."""

    log: ClassVar[Callable[[], Any]]

    def open(self, context: OpenContext) -> Any:
        return type(self).log()


class NumbersLog(Log):
    def end(self, partition: str) -> int:
        return 40

    def ended(self, partition: str) -> bool:
        return True

    def rows(self, start: int, stop: int) -> list[dict[str, Any]]:
        return [{"_offset": at, "text": f"text {at}", "label": "abc"[at % 3]} for at in range(start, stop)]

    def read(self, partition: str, start: int, stop: int) -> Any:
        yield pa.RecordBatch.from_pylist(self.rows(start, stop), schema=log_schema(self.fields))


class NamesOfPartitions(NumbersLog):
    def partitions(self) -> Any:
        return ["0"]


class OnePartition(NumbersLog):
    def partitions(self) -> Any:
        return Partition("0")


class ReadsTables(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        yield pa.Table.from_batches(super().read(partition, start, stop))


class ReadsRows(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        return self.rows(start, stop)


class ReadsOneBatch(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        return next(super().read(partition, start, stop))


class ReadsNothing(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        return None


class ReadsTheStop(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        yield from super().read(partition, start, stop + 1)


class ReadsTwice(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        yield from super().read(partition, start, stop)
        yield from super().read(partition, start, stop)


class ReadsWithoutLabels(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Any:
        for batch in super().read(partition, start, stop):
            yield batch.select(["_offset", "_time", "_reject", "text"])


class FailsToRead(NumbersLog):
    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition, start, stop - 1)
        raise KeyError(partition)


class EndsNowhere(NumbersLog):
    def end(self, partition: str) -> Any:
        return None


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: None, "`open` returns None; return a log, whose class derives from millstream.plugin.Log"),
    (lambda: [], "`open` returns a value of the type list, which has no `partitions`; return a log"),
    (lambda: 1 / 0, "`open` failed: ZeroDivisionError: division by zero, at .*test_wrong_sources.py, line"),
    (NamesOfPartitions, r"`partitions` returns '0' \(str\) in its list; return a list of `Partition\(name\)`"),
    (OnePartition, r"`partitions` returns Partition\(.*; return a list of `Partition\(name\)`"),
    (ReadsTables, r"`read` yields pyarrow.Table.*\(Table\); yield record batches with the schema `log_schema\(self.f"),
    (ReadsRows, r"`read` yields \{'_offset': 0.*\(dict\); yield record batches with the schema"),
    (ReadsOneBatch, r"`read` returns .*\(RecordBatch\); yield record batches with the schema"),
    (ReadsNothing, r"`read` returns None \(NoneType\); yield record batches"),
    (ReadsTheStop, r"`read` yields the offsets 0 to 20 of \[0, 20\).*in \[start, stop\) at most once, in rising order"),
    (
        ReadsTwice,
        r"`read` yields the offsets 0 to 19 of \[0, 20\) in the partition '0' after the offset 19; yield each",
    ),
    (ReadsWithoutLabels, "`read` yields no column 'label' of string; yield record batches"),
    (FailsToRead, "`read` failed: KeyError: '0', at .*test_wrong_sources.py, line"),
    (EndsNowhere, r"`end` returns None \(NoneType\); return an offset, which is an int"),
]


def config_of(**options: Any) -> ms.Config:
    engine = {"type": "local", "epoch": {"max_records": 20}, **options}
    pipeline = {"use": "text_topics", "popularity": None}
    return ms.Config(name="a", source=Numbers(), pipeline=pipeline, engine=engine)


def message_of(call: Callable[[], object]) -> str:
    """The message of the error that ends a call, which is no defect and no mistake of the config."""
    with pytest.raises(ms.MillstreamError) as refused:
        call()
    assert refused.value.exit_code == 1
    assert str(refused.value).startswith(f"the source {__name__}:Numbers: ")
    return str(refused.value)


@pytest.mark.parametrize(("log", "message"), MISTAKES)
def test_a_run_names_the_source_and_the_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Callable[[], Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Numbers, "log", staticmethod(log), raising=False)
    assert re.search(f"(?s)Numbers: {message}", message_of(lambda: ms.run(config_of())))


def test_a_correct_source_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Numbers, "log", staticmethod(NumbersLog), raising=False)
    assert ms.run(config_of()).output("predictions").num_rows == 40


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        (lambda: "no file", r"`problems` returns 'no file' \(str\); return a list of pairs, an option and a message"),
        (lambda: None, r"`problems` returns None \(NoneType\); return a list of pairs"),
        (lambda: ["no file"], r"`problems` returns 'no file' \(str\) among the problems; return a list of pairs"),
        (lambda: 1 / 0, "`problems` failed: ZeroDivisionError: division by zero, at .*test_wrong_sources.py, line"),
    ],
)
def test_validate_names_the_source_whose_problems_are_wrong(
    monkeypatch: pytest.MonkeyPatch, problems: Callable[[], Any], message: str
) -> None:
    monkeypatch.setattr(Numbers, "problems", lambda self, context: problems())
    assert re.search(f"Numbers: {message}", message_of(lambda: ms.validate(config_of())))

"""The checks of a source. Each check is a function that raises AssertionError with the rule that the source breaks."""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import MillstreamError
from millstream.log.checked_source import open_log, problems_of
from millstream.log.contracts import Log, OpenContext, SourceConfig
from millstream.records import OFFSET, REJECT, log_schema
from millstream.steps.checks.failures import named_failures
from millstream.steps.checks.step_run import find_table_difference
from millstream.steps.checks.steps import select_checks

__all__ = ["SOURCE_CHECKS", "SourceTrial", "check_source"]

_MOST = 300
"""The offsets of a partition that the checks read."""
_SECONDS = 30
_PAUSE = 0.01
_SHORTEST_ID = 16
"""The length of an identity that may be the same for all records, because no other log has it."""


def check_source(
    config: SourceConfig, folder: Path, append: Callable[[], object] | None = None, skip: Collection[str] = ()
) -> tuple[str, ...]:
    """Run all checks on a source, whose log has a few records at least; return the names of the skipped checks.

    Relative paths of the config start at `folder`. `append` appends a few records to the log; without it,
    the check of a log that grows is skipped.
    """
    with tempfile.TemporaryDirectory(prefix="millstream-checks-") as caches:
        trial = SourceTrial(config, OpenContext(folder, Path(caches) / "0", "checks"), append)
        skipped = {*skip, *([] if append else [a_log_is_read_beside_its_writer.__name__])}
        for name in select_checks(SOURCE_CHECKS, skipped):
            with named_failures(name, repr(config)):
                SOURCE_CHECKS[name](trial)
            if name == methods_return_what_they_declare.__name__:  # the log can be opened
                _need_records(trial)
    return tuple(name for name in SOURCE_CHECKS if name in skipped)


@dataclass(frozen=True)
class Span:
    """The offsets [start, stop) of a partition, which has records there."""

    partition: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"the offsets [{self.start}, {self.stop}) of the partition {self.partition!r}"


@dataclass(frozen=True)
class SourceTrial:
    """A source under check, and the context in which it is opened."""

    config: SourceConfig
    context: OpenContext
    append: Callable[[], object] | None = None

    def open(self) -> Log:
        self.context.cache.mkdir(parents=True, exist_ok=True)
        return self.config.open(self.context)

    def copy(self) -> SourceTrial:
        """The source as another process has it: the options by their names, and an empty cache."""
        options = self.config.model_dump(mode="json")  # type: ignore[attr-defined]
        config = type(self.config).model_validate(options)  # type: ignore[attr-defined]
        cache = tempfile.mkdtemp(dir=self.context.cache.parent)
        return replace(self, config=config, context=replace(self.context, cache=Path(cache)))

    def spans(self, log: Log) -> Iterator[Span]:
        """The first offsets of each partition that is not empty."""
        for partition in log.partitions():
            start, end = log.beginning(partition.name), log.end(partition.name)
            if start < end:
                yield Span(partition.name, start, min(end, start + _MOST))

    def fail(self, found: str, remedy: str) -> AssertionError:
        return AssertionError(f"{self.config!r}: {found}; {remedy}")

    def read(self, log: Log, span: Span) -> pa.Table:
        """The records of a span; AssertionError if they are not as a log yields them."""
        schema = log_schema(log.fields)
        batches = []
        for batch in log.read(span.partition, span.start, span.stop):
            if not batch.schema.equals(schema):
                found = f"`read` yields the columns\n{batch.schema}\nand not\n{schema}\n"
                raise self.fail(found, "make each batch with the schema `log_schema(self.fields)`")
            batches.append(batch)
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        offsets = table[OFFSET].to_pylist()
        known = [offset for offset in offsets if offset is not None]
        rising = all(one < other for one, other in itertools.pairwise(known))
        if len(known) < len(offsets) or not rising or any(not span.start <= one < span.stop for one in known):
            found = f"reading {span} yields the offsets {_shown(offsets)}"
            raise self.fail(found, "yield each offset of the range at most once, in rising order, and no other")
        return table

    def expect_records(self, expected: pa.Table, found: pa.Table, what: str, remedy: str) -> None:
        difference = find_table_difference(expected, found)
        if difference is not None:
            raise self.fail(f"{what}: {difference}", remedy)


_SAME = "a range has the same records in every read, so that a replay after a crash learns the same"


def methods_return_what_they_declare(trial: SourceTrial) -> None:
    """Check the types of what the methods return, as a run does."""
    trial.context.cache.mkdir(parents=True, exist_ok=True)
    try:
        problems = problems_of("source", trial.config, trial.context)
        with closing(open_log(trial.config, trial.context)) as log:
            for partition in log.partitions():
                start, end = log.beginning(partition.name), log.end(partition.name)
                log.identity(partition.name, start)
                for batch in log.read(partition.name, start, min(end, start + _MOST)):
                    if not batch.schema.equals(log_schema(log.fields)):
                        break  # another check reports it
    except MillstreamError as error:
        raise AssertionError(str(error)) from error
    if problems:
        raise trial.fail(f"`problems` returns {problems}", "check a source without problems, whose log can be read")


def unreadable_records_have_a_reason(trial: SourceTrial) -> None:
    """Check that a record without a text has the reason in `_reject`."""
    with closing(trial.open()) as log:
        for span in trial.spans(log):
            records = trial.read(log, span)
            if "text" not in records.column_names:
                continue
            wrong = pc.and_(records["text"].is_null(), records[REJECT].is_null())
            if (row := pc.index(wrong, True).as_py()) >= 0:
                found = f"the record at the offset {records[OFFSET][row]} of {span.partition!r} has no text"
                raise trial.fail(f"{found} and no reason", "write the reason into `_reject`, and leave its fields null")


def options_travel_by_name(trial: SourceTrial) -> None:
    """Check that the options can be written to a config file and read back: other processes get them so."""
    copy = trial.copy()
    if copy.config != trial.config:
        found = f"the options written to a config file and read back are {copy.config!r}"
        raise trial.fail(found, "let every option be a field whose JSON value makes the same option")


def the_fields_are_declared(trial: SourceTrial) -> None:
    """Check that the log has the fields that the config declares, and that partitions have names of their own."""
    declared = [name for name in trial.config.fields if name != "time"]
    with closing(trial.open()) as log:
        if sorted(declared) != sorted(log.fields):
            found = f"`fields` of the config are {declared} without `time`, and those of the log are {[*log.fields]}"
            raise trial.fail(found, "declare the same fields in both")
        first, second = ([partition.name for partition in log.partitions()] for _ in range(2))
    if first != second or len(set(first)) < len(first):
        found = f"`partitions` returns {_shown(first)} and then {_shown(second)}"
        raise trial.fail(found, "return every partition once, with the same name in every call")
    if not isinstance(trial.config.bounded, bool):
        raise trial.fail(f"`bounded` is {trial.config.bounded!r}", "it is True or False")


def a_range_is_the_same_in_every_read(trial: SourceTrial) -> None:
    """Check that reading a range again, also after another range, gives the same records."""
    with closing(trial.open()) as log:
        expected = {span: trial.read(log, span) for span in trial.spans(log)}
        for span, records in [*expected.items(), *reversed(expected.items())]:
            trial.expect_records(records, trial.read(log, span), f"reading {span} again gives other records", _SAME)


def a_range_can_be_read_in_pieces(trial: SourceTrial) -> None:
    """Check that the pieces of a range have together the records of the range, in whatever order they are read."""
    dice = np.random.default_rng(0)
    with closing(trial.open()) as log:
        for span in trial.spans(log):
            whole = trial.read(log, span)
            few = replace(span, stop=min(span.stop, span.start + 20))
            _check_pieces(trial, log, trial.read(log, few), _cut(few, range(few.start + 1, few.stop)))
            cuts = np.sort(dice.integers(span.start, span.stop + 1, 6)).tolist()
            _check_pieces(trial, log, whole, _cut(span, cuts))
            pieces = _cut(span, cuts)
            shuffled = [pieces[index] for index in dice.permutation(len(pieces)).tolist()]
            read = {piece: trial.read(log, piece) for piece in shuffled}
            found = pa.concat_tables([read[piece] for piece in pieces])
            what = f"{span} has other records when its pieces are read in another order"
            trial.expect_records(whole, found, what, "let a read not depend on the reads before it")


def reads_do_not_disturb_each_other(trial: SourceTrial) -> None:
    """Check that two reads can go on in turn, and that a thread can read while another one asks for ends."""
    with closing(trial.open()) as log:
        spans = list(trial.spans(log))
        expected = {span: trial.read(log, span) for span in spans}
        for span in spans:
            turns = itertools.zip_longest(*(log.read(span.partition, span.start, span.stop) for _ in range(2)))
            for found in zip(*turns, strict=True):
                records = pa.Table.from_batches([batch for batch in found if batch is not None], log_schema(log.fields))
                what = f"{span} has other records in two reads that go on in turn"
                trial.expect_records(expected[span], records, what, "keep the position of a read in the read itself")
        failures: list[BaseException] = []
        reading = threading.Thread(target=_read_often, args=(trial, log, expected, failures), daemon=True)
        reading.start()
        while reading.is_alive():
            for partition in log.partitions():
                log.end(partition.name)
        reading.join()
    if failures:
        raise failures[0]


def a_copy_reads_the_same(trial: SourceTrial) -> None:
    """Check that the log that another process opens has the same partitions and records."""
    with closing(trial.open()) as log, closing(trial.copy().open()) as copy:
        names = [[partition.name for partition in each.partitions()] for each in (log, copy)]
        if names[0] != names[1]:
            found = f"the partitions are {_shown(names[0])}, and those of a second log are {_shown(names[1])}"
            raise trial.fail(found, "let the partitions depend on the options and the data alone")
        for span in trial.spans(log):
            what = f"{span} has other records in a second log of the same options"
            trial.expect_records(trial.read(log, span), trial.read(copy, span), what, _SAME)


def an_empty_range_has_no_records(trial: SourceTrial) -> None:
    """Check that a range without offsets has no records, at the beginning, in the middle and at the end."""
    with closing(trial.open()) as log:
        for span in trial.spans(log):
            for at in (span.start, (span.start + span.stop) // 2, span.stop):
                empty = Span(span.partition, at, at)
                found = sum(batch.num_rows for batch in log.read(empty.partition, at, at))
                if found:
                    raise trial.fail(f"reading {empty} yields {found} records", "yield nothing for an empty range")


def positions_are_offsets(trial: SourceTrial) -> None:
    """Check that the beginning and the end are fixed offsets, and that reading resumes where it stopped."""
    with closing(trial.open()) as log:
        for span in trial.spans(log):
            first = log.beginning(span.partition)
            if first != span.start or first > log.end(span.partition):
                found = f"the beginning of {span.partition!r} is {span.start}, then {first}"
                raise trial.fail(found, "return the same offset in every call, at most the end")
            for wanted in (span.start, (span.start + span.stop) // 2, span.stop):
                resumed = log.resume(span.partition, wanted)
                if resumed != wanted:
                    found = f"`resume` at {wanted} of {span.partition!r} returns {resumed}, and the record is there"
                    raise trial.fail(found, "return the wanted offset, unless its records were removed")
            for name in ("is_current", "ended"):
                answer = getattr(log, name)(span.partition)
                if not isinstance(answer, bool):
                    raise trial.fail(f"`{name}` of {span.partition!r} is {answer!r}", "return True or False")


def identities_stay(trial: SourceTrial) -> None:
    """Check that the identity of the records before an offset is the same in every call and in every log."""
    remedy = "let the identity depend only on the partition and its records before the offset: else no start continues"
    with closing(trial.open()) as log, closing(trial.copy().open()) as copy:
        found_all = set()
        for span in trial.spans(log):
            for upto in (span.start, (span.start + span.stop) // 2, span.stop):
                first, second, other = (each.identity(span.partition, upto) for each in (log, log, copy))
                if not isinstance(first, str) or first != second or first != other:
                    found = f"the identity of {span.partition!r} up to {upto} is {first!r}, then {second!r}"
                    raise trial.fail(f"{found}, and {other!r} in a second log", remedy)
                found_all.add(first)
    if len(found_all) == 1 and len(first) < _SHORTEST_ID:
        found = f"the identity is {first!r} for all records of all partitions, too short for an id of this log alone"
        raise trial.fail(found, "return a digest of the records before the offset, or the unique id of the log")


def a_log_is_read_beside_its_writer(trial: SourceTrial) -> None:
    """Check that records can be appended: the ends rise, and earlier records and identities stay as they were."""
    if trial.append is None:
        raise trial.fail("nothing appends to its log", "give `append`, or skip this check")
    with closing(trial.open()) as log:
        before = {span: trial.read(log, span) for span in trial.spans(log)}
        identities = {span: log.identity(span.partition, span.stop) for span in before}
        ends = {span: log.end(span.partition) for span in before}
        whole = {partition.name: log.end(partition.name) for partition in log.partitions()}
        trial.append()
        _wait_for_records(trial, log, whole)
        for span, records in before.items():
            end = log.end(span.partition)
            if end < ends[span]:
                raise trial.fail(f"the end of {span.partition!r} falls from {ends[span]} to {end}", "let no end fall")
            what = f"{span} has other records after an append"
            trial.expect_records(records, trial.read(log, span), what, _SAME)
            now = log.identity(span.partition, span.stop)
            if now != identities[span]:
                found = (
                    f"the identity of {span.partition!r} up to {span.stop} is {identities[span]!r}, and {now!r} later"
                )
                raise trial.fail(found, "let the identity up to an offset not depend on later records")
            new = Span(span.partition, span.stop, min(end, span.stop + _MOST))
            with closing(trial.copy().open()) as copy:
                what = f"{new}, which were appended, have other records in a second log"
                trial.expect_records(trial.read(log, new), trial.read(copy, new), what, _SAME)


SOURCE_CHECKS: dict[str, Callable[[SourceTrial], None]] = {
    check.__name__: check
    for check in (
        methods_return_what_they_declare,
        options_travel_by_name,
        the_fields_are_declared,
        a_range_is_the_same_in_every_read,
        unreadable_records_have_a_reason,
        a_range_can_be_read_in_pieces,
        reads_do_not_disturb_each_other,
        a_copy_reads_the_same,
        an_empty_range_has_no_records,
        positions_are_offsets,
        identities_stay,
        a_log_is_read_beside_its_writer,
    )
}
"""The checks of sources, by name."""


def _need_records(trial: SourceTrial) -> None:
    """Refuse a log without records; `ValueError`, because the source may be correct."""
    with closing(trial.open()) as log:
        if not any(trial.spans(log)):
            message = f"the checks of a source need a few records, and the log of {trial.config!r} has none"
            raise ValueError(message)


def _cut(span: Span, cuts: Sequence[int] | range) -> list[Span]:
    bounds = [span.start, *cuts, span.stop]
    return [Span(span.partition, start, stop) for start, stop in itertools.pairwise(bounds)]


def _check_pieces(trial: SourceTrial, log: Log, whole: pa.Table, pieces: Sequence[Span]) -> None:
    found = pa.concat_tables([trial.read(log, piece) for piece in pieces])
    what = f"the partition {pieces[0].partition!r} has other records when it is read in {len(pieces)} pieces"
    trial.expect_records(whole, found, what, "yield exactly the records whose offsets are in the range")


def _read_often(trial: SourceTrial, log: Log, expected: dict[Span, pa.Table], failures: list[BaseException]) -> None:
    try:
        for span, records in [*expected.items()] * 3:
            what = f"{span} has other records in another thread"
            trial.expect_records(records, trial.read(log, span), what, _SAME)
    except BaseException as error:
        failures.append(error)


def _wait_for_records(trial: SourceTrial, log: Log, before: dict[str, int]) -> None:
    """Wait until an end has risen, or a partition was added."""
    deadline = time.monotonic() + _SECONDS
    while all(log.end(partition.name) <= before.get(partition.name, 0) for partition in log.partitions()):
        if time.monotonic() > deadline:
            found = f"no end has risen {_SECONDS} s after an append"
            raise trial.fail(found, "let `end` look at the log in every call, or a few milliseconds before")
        time.sleep(_PAUSE)


def _shown(values: Sequence[Any]) -> str:
    return f"{[*values]}" if len(values) <= 12 else f"{[*values[:6]]} ... {[*values[-6:]]}"

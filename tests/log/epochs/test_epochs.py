"""The epoch log's receipts and totals."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.digests import Digest
from millstream.errors import AlteredLog
from millstream.log.epochs import (
    Added,
    Baselines,
    Build,
    Decided,
    Ended,
    Epoch,
    EpochLog,
    EpochReader,
    EpochReceipt,
    Event,
    Idle,
    NewModel,
    PartitionName,
    Scores,
    SinkAdded,
    SinkRemoved,
    Skipped,
    Swap,
    Totals,
)
from millstream.log.journal import Journal


def receipt(epoch: int, labelled: int, attempt: int = 1) -> EpochReceipt:
    scores = Scores(labelled, labelled, Baselines(no_change=labelled // 4, majority=labelled // 2))
    made = {"topics": Digest(3, 8, 9)}
    return EpochReceipt(epoch, attempt, 10, 0, {"news": Digest(10, 5, 6)}, {}, made, {"classify": scores})


def totals(folder: Path, receipts: Sequence[EpochReceipt]) -> Totals:
    """The totals of an epoch log with these receipts."""
    with Journal(folder) as journal:
        for one in receipts:
            for line in (Epoch(one.epoch, {0: (0, 10)}).line(), one.line()):
                if one.attempt == 1 or "receipt" in line:
                    journal.append(json.dumps(line).encode())
    return EpochReader(folder).totals()


def test_reading_an_epoch_gives_the_events_that_were_written() -> None:
    events = (
        Added(PartitionName("news", "part-0", 0), 7),
        Skipped(0, 9),
        Idle(0),
        Ended(0),
        Decided("label", {"better": 0.5, "over": 100}, {"labelled": 120}),
        Swap("label", "models:/news/3"),
        NewModel("label_shadow", "models:/news/4", "5-ab", {"news": {"part-0": 7}}, skipped=2, repeated=1),
        SinkAdded("rows"),
        SinkRemoved("old rows"),
        Build({"numpy": "2.0"}),
    )
    assert {type(event) for event in events} == set(typing.get_args(Event))
    written = Epoch(3, {0: (7, 9)}, events)
    assert Epoch.from_line(json.loads(json.dumps(written.line()))) == written


def test_reading_a_receipt_gives_the_receipt_that_was_written() -> None:
    written = receipt(3, 8)
    assert EpochReceipt.from_line(json.loads(json.dumps(written.line()))) == written


def test_records_count_once_with_the_results_of_the_first_attempt(tmp_path: Path) -> None:
    found = totals(tmp_path, [receipt(0, 8), receipt(1, 8), receipt(1, 4, attempt=2)])
    assert (found.overall.labelled, found.processed, found.accuracy) == (16, 30, 1)
    assert found.scores == {"classify": Scores(16, 16, Baselines(4, 8))}
    assert found.baseline_accuracies == {"no_change": 0.25, "majority": 0.5}


def test_without_labels_there_is_no_accuracy_and_no_baseline(tmp_path: Path) -> None:
    found = totals(tmp_path, [receipt(0, 0)])
    assert (found.accuracy, found.baseline_accuracies) == (None, None)


def test_totals_continue_from_the_header_of_a_segment() -> None:
    before = Totals()
    added = tuple(Added(PartitionName("source", name, number)) for number, name in enumerate("abc"))
    before.add_epoch(Epoch(0, {1: (0, 5)}, (*added, Idle(0), Idle(1), Ended(2)), at=50))
    held = replace(receipt(0, 8), watermarks={"classify": 20, "topics": None}, held_by=1)
    before.add_receipt(EpochReceipt.from_line(json.loads(json.dumps(held.line()))))
    assert Totals.from_header(before.header()) == before
    assert (before.at, before.idle, before.ended, before.watermarks) == (50, {0, 1}, {2}, held.watermarks)


def test_totals_have_the_time_since_which_a_partition_holds_the_watermark() -> None:
    found = Totals()
    for number, (time, held_by) in enumerate([(20, 0), (20, 0), (30, 0), (30, 1), (30, 1)]):
        found.add_epoch(Epoch(number, {}, (), at=100 + number))
        found.add_receipt(replace(receipt(number, 8), watermarks={"topics": time}, held_by=held_by))
    assert (found.held_by, found.held_since) == (1, 103)


def test_a_partition_is_idle_until_a_cut_has_offsets_of_it() -> None:
    found = Totals()
    found.add_epoch(Epoch(0, {}, (Added(PartitionName("source", "a", 0)), Idle(0))))
    assert found.idle == {0}
    found.add_epoch(Epoch(1, {0: (0, 0)}))
    assert found.idle == {0}
    found.add_epoch(Epoch(2, {0: (0, 3)}))
    assert found.idle == set()
    found.add_epoch(Epoch(3, {0: (3, 4)}, (Idle(0),)))
    assert found.idle == {0}
    found.add_epoch(Epoch(4, {}, (Ended(0),)))
    assert (found.idle, found.ended) == (set(), {0})


def test_a_reader_refuses_files_in_which_an_epoch_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AlteredLog, match=r"the epoch log goes from epoch 0 to 2; its files were altered"):
        totals(tmp_path, [receipt(0, 8), receipt(2, 8)])


FIRST = Epoch(0, {0: (5, 9)}, (Added(PartitionName("source", "a", 0), 5),))


@pytest.mark.parametrize(
    ("append", "message"),
    [
        (lambda log: log.cut(Epoch(2, {0: (9, 10)})), "epoch 2 was cut after 0"),
        (lambda log: log.cut(Epoch(0, {0: (9, 10)})), "epoch 0 was cut after 0"),
        (lambda log: log.cut(Epoch(1, {0: (8, 10)})), r"epoch 1 reads \[8, 10\) at position 9"),
        (lambda log: log.cut(Epoch(1, {0: (10, 12)})), r"epoch 1 reads \[10, 12\) at position 9"),
        (lambda log: log.cut(Epoch(1, {0: (9, 8)})), r"epoch 1 reads \[9, 8\) at position 9"),
        (lambda log: log.cut(Epoch(1, {}, (Skipped(0, 8),))), "goes back in epoch 1"),
        (lambda log: log.cut(Epoch(1, {0: (9, 10)}, at=-1)), "epoch 1 was cut at -1, before 0"),
        (lambda log: log.receipt(receipt(1, 8)), "epoch 1 was processed and never cut"),
        (lambda log: log.commit(1), "a commit of epoch 1 after 0, with 0 the last cut"),
        (lambda log: log.commit(-1), "a commit of epoch -1 after 0, with 0 the last cut"),
    ],
)
def test_a_line_that_breaks_the_protocol_raises_an_assertion_error_and_is_not_written(
    tmp_path: Path, append: Callable[[EpochLog], None], message: str
) -> None:
    log = EpochLog(tmp_path)
    log.cut(FIRST)
    log.receipt(receipt(0, 8))
    log.commit(0)
    before = list(log.reader().lines())
    with pytest.raises(AssertionError, match=message):
        append(log)
    assert list(log.reader().lines()) == before
    assert log.totals == log.reader().totals()
    log.cut(Epoch(1, {0: (12, 13), 1: (0, 2)}, (Skipped(0, 12), Added(PartitionName("source", "b", 1)))))
    assert log.totals.positions == {0: 13, 1: 2}

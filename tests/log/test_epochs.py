"""The epoch log's totals, also over what an older version has written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from millstream.log.baselines import Baselines
from millstream.log.epochs import Epoch, EpochReader, Note, Totals
from millstream.log.journal import Journal


def note(epoch: int, labelled: int, attempt: int = 1) -> Note:
    counted = Baselines(no_change=labelled // 4, majority=labelled // 2)
    return Note(epoch, attempt, 10, 0, labelled, labelled, {0: (10, "x")}, {}, {"topics": (3, "y")}, counted)


def totals(folder: Path, notes: Sequence[Note], older: Sequence[int] = ()) -> Totals:
    """Those of an epoch log with these notes; those of some epochs are of a version that did not count baselines."""
    with Journal(folder) as journal:
        for one in notes:
            line = one.line()
            if one.epoch in older:
                del line["baselines"]
            for told in (Epoch(one.epoch, {0: (0, 10)}).line(), line):
                if one.attempt == 1 or "note" in told:
                    journal.append(json.dumps(told).encode())
    return EpochReader(folder).totals()


def test_a_note_is_read_as_it_was_written() -> None:
    written = note(3, 8)
    assert Note.from_line(json.loads(json.dumps(written.line()))) == written


def test_records_count_once_as_they_were_first_processed(tmp_path: Path) -> None:
    found = totals(tmp_path, [note(0, 8), note(1, 8), note(1, 4, attempt=2)])
    assert (found.labelled, found.processed, found.accuracy) == (16, 30, 1)
    assert found.baselines == Baselines(4, 8)
    assert found.baseline_accuracies == {"no_change": 0.25, "majority": 0.5}


def test_without_labels_there_is_no_accuracy_and_no_baseline(tmp_path: Path) -> None:
    found = totals(tmp_path, [note(0, 0)])
    assert (found.accuracy, found.baseline_accuracies) == (None, None)


@pytest.mark.parametrize("older", [[0], [1], [0, 1]])
def test_baselines_are_not_known_where_an_older_version_has_counted_without_them(
    tmp_path: Path, older: list[int]
) -> None:
    found = totals(tmp_path, [note(0, 8), note(1, 8)], older)
    assert (found.accuracy, found.baselines, found.baseline_accuracies) == (1, None, None)
    assert totals(tmp_path / "unlabelled", [note(0, 0), note(1, 8)], [0]).baselines == Baselines(2, 4)


def test_totals_go_on_from_the_head_of_a_part_also_of_an_older_one() -> None:
    before = Totals()
    before.take_note(note(0, 8))
    head = json.loads(before.header())
    assert Totals.from_header(json.dumps(head).encode()) == before
    del head["baselines"]
    assert Totals.from_header(json.dumps(head).encode()).baselines is None
    assert Totals.from_header(json.dumps({**head, "labelled": 0}).encode()).baselines == Baselines()

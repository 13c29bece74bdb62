"""The epoch log's notes and totals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from millstream.log.baselines import Baselines
from millstream.log.epochs import Epoch, EpochReader, Note, Totals
from millstream.log.journal import Journal


def note(epoch: int, labelled: int, attempt: int = 1) -> Note:
    counted = Baselines(no_change=labelled // 4, majority=labelled // 2)
    return Note(epoch, attempt, 10, 0, labelled, labelled, {0: (10, "x")}, {}, {"topics": (3, "y")}, counted)


def totals(folder: Path, notes: Sequence[Note]) -> Totals:
    """The totals of an epoch log with these notes."""
    with Journal(folder) as journal:
        for one in notes:
            for line in (Epoch(one.epoch, {0: (0, 10)}).line(), one.line()):
                if one.attempt == 1 or "note" in line:
                    journal.append(json.dumps(line).encode())
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


def test_totals_go_on_from_the_head_of_a_part() -> None:
    before = Totals()
    before.take_note(note(0, 8))
    assert Totals.from_header(before.header()) == before

"""What the epoch log costs: writing it beside the sync, and opening a very long one."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from benchmarks.figures import AtMost, Figure, Measurement, Setting, spread

from millstream.log.epochs import Added, Epoch, EpochLog, Note, PartitionName, SinkAdded, Totals
from millstream.log.journal import Journal

__all__ = ["MEASUREMENTS"]

_RECORDS = 5_000
_DIGEST = "0123456789abcdef" * 2
_NOTED = 50_000
"""How many of the last epochs of a long log have notes too: more than its last part, which is what a start reads."""
_AT_ONCE = 2_000


def _left_out(file: int) -> None:
    """In place of a sync."""


def _epoch(number: int) -> Epoch:
    first = (Added(PartitionName("source", "documents.jsonl", 0)), SinkAdded("predictions files outputs/predictions"))
    start = number * _RECORDS
    return Epoch(number, {0: (start, start + _RECORDS)}, first if number == 0 else ())


def _note(number: int) -> Note:
    return Note(
        epoch=number,
        attempt=1,
        records=_RECORDS,
        rejects=0,
        correct=4_500,
        labelled=_RECORDS,
        inputs={0: (_RECORDS, _DIGEST)},
        steps={"features": _DIGEST, "classify": _DIGEST},
        outputs={"predictions": (_RECORDS, _DIGEST)},
    )


def _cost(setting: Setting) -> Iterator[Figure]:
    epochs = 2_000 if setting.quick else 20_000
    taken = []
    for number in range(setting.rounds):
        folder = setting.folder / "epoch-log"
        log = EpochLog(folder)
        prepared = [(_epoch(number), _note(number)) for number in range(epochs)]
        with mock.patch("os.fsync", _left_out), mock.patch("os.fdatasync", _left_out):
            began = time.perf_counter()
            for epoch, note in prepared:
                log.cut(epoch)
                log.note(note)
                log.sync()
                log.commit(epoch.number)
            taken.append((time.perf_counter() - began) / epochs * 1000)
        log.close()
        shutil.rmtree(folder)
        setting.say(f"round {number + 1} of {setting.rounds}: {taken[-1]:.3f} ms")
    yield Figure("epoch_log_cost", statistics.median(taken), "ms", AtMost(1), spread(taken, ".3f"))


def _start(setting: Setting) -> Iterator[Figure]:
    short, long = (1_000, 100_000) if setting.quick else (10_000, 10_000_000)
    folders = {epochs: setting.folder / f"epochs-{epochs}" for epochs in (short, long)}
    taken: dict[int, list[float]] = {short: [], long: []}
    try:
        for epochs, folder in folders.items():
            setting.say(f"writing an epoch log of {epochs:,} epochs")
            _write(folder, epochs)
        for _ in range(setting.rounds):
            for epochs, folder in folders.items():
                taken[epochs].append(_opening(folder, epochs))
    finally:
        size = sum(file.stat().st_size for file in folders[long].glob("*"))
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
    few, many = statistics.median(taken[short]), statistics.median(taken[long])
    detail = f"{spread(taken[long], '.3f')}; {many / few:.2f} x {few:.3f} s for {short:,} epochs; {size / 1e9:.1f} GB"
    yield Figure("epoch_log_start", many, "s", AtMost(round(max(1.0, 2 * few), 3)), detail)


def _write(folder: Path, epochs: int) -> None:
    """An epoch log as a run writes it, but many lines at a time and, but for the last epochs, without notes."""
    totals = Totals()
    noted = json.dumps(_note(0).line(), separators=(",", ":")).replace('{"note":0', '{"note":%d', 1).encode()
    with (
        mock.patch("os.fsync", _left_out),
        Journal(folder, header=lambda: totals.header()) as journal,
    ):
        for first in range(0, epochs, _AT_ONCE):
            lines = []
            for number in range(first, min(epochs, first + _AT_ONCE)):
                start = number * _RECORDS
                if number == 0:
                    lines.append(json.dumps(_epoch(0).line(), separators=(",", ":")).encode())
                else:
                    lines.append(b'{"epoch":%d,"cut":{"0":[%d,%d]},"events":[]}' % (number, start, start + _RECORDS))
                if number >= epochs - _NOTED:
                    lines.append(noted % number)
                lines.append(b'{"commit":%d}' % number)
            journal.append_many(lines)
            for line in lines if first == 0 else lines[-2:]:
                _fold(totals, json.loads(line), first)
            totals.next_epoch, totals.positions[0] = number + 1, (number + 1) * _RECORDS


def _fold(totals: Totals, line: dict[str, object], first: int) -> None:
    if first == 0 or "commit" in line:
        totals.take(line)


def _opening(folder: Path, epochs: int) -> float:
    """As a start does it: open, then read what follows the last save, here the last two epochs."""
    began = time.perf_counter()
    log = EpochLog(folder)
    reader = log.reader()
    waiting, notes = list(reader.epochs(epochs - 2)), list(reader.notes(epochs - 2))
    seconds = time.perf_counter() - began
    found = (log.totals.next_epoch, log.totals.committed, len(waiting), len(notes))
    log.close()
    if found != (epochs, epochs - 1, 2, 2):
        raise RuntimeError(f"the log that was written does not read as {epochs:,} epochs: {found}")
    return seconds


MEASUREMENTS = (
    Measurement(
        "epoch_log_cost",
        ("epoch_log_cost",),
        "cut, note and commit of an epoch appended over 20,000 epochs, with what syncs the disk left out",
        _cost,
    ),
    Measurement(
        "epoch_log_start",
        ("epoch_log_start",),
        "opening the epoch log of 10,000,000 epochs and reading its last two as a start does; at most a second, or "
        "twice the time of 10,000 epochs",
        _start,
    ),
)

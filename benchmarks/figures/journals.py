"""The journal and the epoch log: cost of a record, cost of an epoch, start of a long epoch log."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least, at_most
from benchmarks.kit.rates import Rate, since
from benchmarks.kit.rounds import interleaved, median, ratio, repeated, spread
from millstream.digests import Digest
from millstream.log.contracts import Log, OpenContext
from millstream.log.epochs import (
    Added,
    Base,
    Baselines,
    Epoch,
    EpochLog,
    EpochReader,
    EpochReceipt,
    PartitionName,
    Scores,
    SinkAdded,
)
from millstream.log.journal import Journal
from millstream_connectors.files.source import FilesSource
from millstream_connectors.journal import JournalSource

__all__ = ["MEASUREMENTS"]

_EPOCH = 5_000
_DIGEST = Digest.of(_EPOCH, "0123456789abcdef" * 2)
_SHORT, _LONG = 10_000, 10_000_000
_WITH_RECEIPT = 50_000
"""The last epochs of a long log have receipts too: more than its last segment, the one that a start reads."""
_RECORDS = 200_000
_AT_ONCE = 10_000


def _epoch(number: int) -> Epoch:
    first = (Added(PartitionName("source", "documents.jsonl", 0)), SinkAdded("predictions files outputs/predictions"))
    return Epoch(number, {0: (number * _EPOCH, (number + 1) * _EPOCH)}, first if number == 0 else ())


def _receipt(number: int) -> EpochReceipt:
    return EpochReceipt(
        epoch=number,
        attempt=1,
        records=_EPOCH,
        rejects=0,
        inputs={"source": _DIGEST},
        streams={"features": _DIGEST, "classify": _DIGEST},
        outputs={"predictions": _DIGEST},
        scores={"classify": Scores(_EPOCH, 4_500, Baselines(1_000, 1_400))},
    )


def _append(log: EpochLog, epoch: Epoch, receipt: EpochReceipt | None) -> None:
    log.cut(epoch)
    if receipt is not None:
        log.receipt(receipt)
    log.sync()
    log.commit(epoch.number)


def _unsynced() -> ExitStack:
    """A context without syncs of the disk."""
    stack = ExitStack()
    for name in ("os.fsync", "os.fdatasync"):
        stack.enter_context(mock.patch(name, return_value=None))
    return stack


def _cost(setting: Setting) -> Iterator[Value]:
    epochs = 2_000 if setting.quick else 20_000

    def milliseconds(_: int) -> float:
        log = EpochLog(setting.fresh("epochs"))
        prepared = [(_epoch(number), _receipt(number)) for number in range(epochs)]
        with _unsynced():
            began = time.perf_counter()
            for epoch, receipt in prepared:
                _append(log, epoch, receipt)
            seconds = time.perf_counter() - began
        log.close()
        return seconds / epochs * 1000

    yield median("epoch_log_cost", repeated(setting, milliseconds), ".3f")


def _start(setting: Setting) -> Iterator[Value]:
    short, long = (1_000, 100_000) if setting.quick else (_SHORT, _LONG)
    for epochs in (short, long):
        setting.say(f"writing an epoch log of {epochs:,} epochs")
        log = EpochLog(setting.fresh(str(epochs)))
        with _unsynced():
            for number in range(epochs):
                _append(log, _epoch(number), _receipt(number) if number >= epochs - _WITH_RECEIPT else None)
            for _ in log.compact(epochs, ()):
                pass
        log.close()
    few = repeated(setting, lambda _: _opening(setting.folder / str(short), short))
    many = repeated(setting, lambda _: _opening(setting.folder / str(long), long))
    yield median("epoch_log_start", many, ".3f", f"{spread(few, '.3f')} for {short:,} epochs")
    folder = setting.folder / str(long)
    yield median("epoch_log_status", repeated(setting, lambda _: _reading_status(folder, long)), ".3f")
    yield Value("epoch_log_keep", _moving_base(folder, long))


def _opening(folder: Path, epochs: int) -> float:
    """Seconds that a start needs to open the log and to read the epochs after the checkpoint, here two."""
    began = time.perf_counter()
    log = EpochLog(folder)
    reader = log.reader()
    waiting, receipts = list(reader.epochs(epochs - 2)), list(reader.receipts(epochs - 2))
    seconds = time.perf_counter() - began
    found = (log.totals.next_epoch, log.totals.committed, len(waiting), len(receipts))
    log.close()
    if found != (epochs, epochs - 1, 2, 2):
        raise RuntimeError(f"the written log does not read as {epochs:,} epochs: {found}")
    return seconds


def _reading_status(folder: Path, epochs: int) -> float:
    """Seconds that `status` needs to read the epoch log."""
    began = time.perf_counter()
    reader = EpochReader(folder)
    totals = reader.totals()
    last = max(receipt.last for receipt in reader.receipts(max(totals.committed, totals.base.epoch + 1)))
    seconds = time.perf_counter() - began
    if last != epochs - 1:
        raise RuntimeError(f"the last receipt is that of epoch {last:,}")
    return seconds


def _moving_base(folder: Path, epochs: int) -> float:
    """Seconds to move the base to the last but one epoch, and to drop all segments before it, without syncs."""
    log = EpochLog(folder)
    with _unsynced():
        began = time.perf_counter()
        log.move_base(Base(epochs - 2, 0))
        while log.drop_oldest():
            pass
        seconds = time.perf_counter() - began
    left = [epoch.number for epoch in log.reader().epochs()]
    log.close()
    if left != [epochs - 1]:
        raise RuntimeError(f"{len(left):,} epochs are left")
    return seconds


def _blocks(setting: Setting) -> Iterator[Value]:
    folder, appended = setting.folder, list[float]()
    with setting.documents.file.open("rb") as documents:
        lines = list(itertools.islice(documents, 20_000 if setting.quick else _RECORDS))
    (folder / "lines.jsonl").write_bytes(b"".join(lines))
    entries = [line.removesuffix(b"\n") for line in lines]

    def from_journal() -> Rate:
        appended.append(_appending(setting.fresh("journal"), entries))
        context = OpenContext(folder, setting.fresh("cache"))
        return _reading(JournalSource(path="journal").open(context), len(entries))

    def from_file() -> Rate:
        return _reading(FilesSource(path="lines.jsonl").open(OpenContext(folder, setting.fresh("cache"))), len(entries))

    taken = interleaved(setting, {"journal": from_journal, "file": from_file})
    yield median("journal_append", appended, ".2f")
    size = sum(map(len, lines)) / len(lines)
    yield median("journal_read", [1e6 / rate for rate in taken["journal"]], ".2f", f"{size:.0f} bytes each")
    yield ratio("journal_read_vs_file", taken, "journal", "file")


def _appending(folder: Path, entries: Sequence[bytes]) -> float:
    """Microseconds an entry, into a new journal."""
    with Journal(folder) as journal:
        began = time.perf_counter()
        for start in range(0, len(entries), _AT_ONCE):
            journal.append_many(entries[start : start + _AT_ONCE])
        return (time.perf_counter() - began) / len(entries) * 1e6


def _reading(log: Log, count: int) -> Rate:
    """Read the only partition, epoch by epoch."""
    (partition,) = (partition.name for partition in log.partitions())
    log.end(partition)
    began, read = time.perf_counter(), 0
    for start in range(0, count, _AT_ONCE):
        read += sum(batch.num_rows for batch in log.read(partition, start, min(start + _AT_ONCE, count)))
    rate = since(began, read)
    log.close()
    if read != count:
        raise RuntimeError(f"{read:,} records were read instead of {count:,}")
    return rate


MEASUREMENTS = (
    Measurement(
        (Figure("epoch_log_cost", "ms", at_most(1)),),
        "Cut, receipt and commit of an epoch, appended for 20,000 epochs without the syncs of the disk.",
        _cost,
    ),
    Measurement(
        (
            Figure("epoch_log_start", "s", at_most(1)),
            Figure("epoch_log_status", "s", at_most(2)),
            Figure("epoch_log_keep", "s", at_most(2)),
        ),
        f"Opening the compacted epoch log of {_LONG:,} epochs and reading its last two epochs, as a start does; the "
        f"time for {_SHORT:,} epochs is shown beside it. Then reading it as `status` does, and moving its base.",
        _start,
        name="epoch_log_start",
    ),
    Measurement(
        (
            Figure("journal_append", "us", at_most(0.7)),
            Figure("journal_read", "us"),
            Figure("journal_read_vs_file", "x", at_least(0.9)),
        ),
        f"{_RECORDS:,} documents appended to a journal, {_AT_ONCE:,} at once, and read as records, {_AT_ONCE:,} at a "
        "time; *_vs_file is the ratio to the same lines read from a file by the source `files`, in turns.",
        _blocks,
        name="journal_blocks",
    ),
)

"""What the embedded log costs a record: appending many at a time, and reading them as records."""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import AtLeast, AtMost, Figure, Measurement, Setting, ratio, spread

from millstream.log.contracts import Log, Place
from millstream.log.journal import Journal
from millstream_connectors.files.source import FilesSource
from millstream_connectors.journal import JournalSource

__all__ = ["MEASUREMENTS"]

_RECORDS = 200_000
_AT_ONCE = 10_000


def _blocks(setting: Setting) -> Iterator[Figure]:
    folder = setting.folder / "journal-blocks"
    folder.mkdir()
    with setting.documents.file.open("rb") as documents:
        lines = list(itertools.islice(documents, 20_000 if setting.quick else _RECORDS))
    (folder / "lines.jsonl").write_bytes(b"".join(lines))
    entries = [line.removesuffix(b"\n") for line in lines]
    appending: list[float] = []
    speeds: dict[str, list[float]] = {"journal": [], "file": []}
    for number in range(setting.rounds):
        appending.append(_append(folder / "journal", entries))
        place = Place(base=folder, cache=folder / f"cache-{number}")
        speeds["journal"].append(_read(JournalSource(path="journal").open(place), len(entries)))
        speeds["file"].append(_read(FilesSource(path="lines.jsonl").open(place), len(entries)))
        said = ", ".join(f"{1e6 / values[-1]:.2f} us from a {name}" for name, values in speeds.items())
        setting.say(f"round {number + 1} of {setting.rounds}: {appending[-1]:.2f} us appended; {said}")
    size = sum(map(len, lines)) / len(lines)
    shutil.rmtree(folder)
    reading = [1e6 / speed for speed in speeds["journal"]]
    yield Figure("journal_append", statistics.median(appending), "us", AtMost(0.7), spread(appending, ".2f"))
    yield Figure(
        "journal_read", statistics.median(reading), "us", None, f"{spread(reading, '.2f')}; {size:.0f} bytes each"
    )
    yield ratio("journal_read_vs_file", speeds, "journal", "file", AtLeast(0.9))


def _append(folder: Path, entries: Sequence[bytes]) -> float:
    """Microseconds an entry, into a journal of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    with Journal(folder) as journal:
        began = time.perf_counter()
        for start in range(0, len(entries), _AT_ONCE):
            journal.append_many(entries[start : start + _AT_ONCE])
        return (time.perf_counter() - began) / len(entries) * 1e6


def _read(log: Log, count: int) -> float:
    """Records a second, epoch by epoch."""
    (partition,) = (partition.name for partition in log.partitions())
    log.end(partition)
    began, read = time.perf_counter(), 0
    for start in range(0, count, _AT_ONCE):
        read += sum(batch.num_rows for batch in log.read(partition, start, min(start + _AT_ONCE, count)))
    seconds = time.perf_counter() - began
    log.close()
    if read != count:
        raise RuntimeError(f"{read:,} records were read, not {count:,}")
    return count / seconds


MEASUREMENTS = (
    Measurement(
        "journal_blocks",
        ("journal_append", "journal_read", "journal_read_vs_file"),
        "200,000 documents into a journal, 10,000 an append, and read as records, 10,000 at a time; beside it the same "
        "lines read from a file by the source `files`, in turns",
        _blocks,
    ),
)

"""The embedded log as a source: entries by index, safely while another process appends."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.errors import AlteredLog, ConfigError, Truncated
from millstream.log.contracts import OpenContext, Progress
from millstream.log.journal import Journal
from millstream.records import log_schema
from millstream_connectors.journal import JournalLog, JournalSink, JournalSource


def at(folder: Path) -> OpenContext:
    return OpenContext(folder=folder, cache=folder / "cache")


def open_log(folder: Path) -> JournalLog:
    return JournalSource(path="news").open(at(folder))


def texts(log: JournalLog, start: int, stop: int) -> list[str | None]:
    found: list[str | None] = []
    for batch in log.read("0", start, stop):
        assert batch.schema == log_schema(log.fields)
        assert batch["_offset"].to_pylist() == list(range(start + len(found), start + len(found) + batch.num_rows))
        found += batch["text"].to_pylist()
    return found


def entry(number: int) -> bytes:
    return b'{"text": "t%d"}' % number


def test_new_entries_are_records_with_their_index_as_offset(tmp_path: Path) -> None:
    with Journal(tmp_path / "news", segment_bytes=100_000) as journal:
        log, copy = open_log(tmp_path), open_log(tmp_path)
        assert (log.beginning("0"), log.end("0"), log.ended("0")) == (0, 0, False)
        for start in range(0, 30_000, 3000):
            journal.append_many(entry(number) for number in range(start, start + 3000))
            assert log.end("0") == start + 3000
            assert texts(copy, start, start + 3000) == [f"t{number}" for number in range(start, start + 3000)]
        assert texts(log, 0, 30_000) == [f"t{number}" for number in range(30_000)]
        assert texts(log, 12_345, 12_346) == ["t12345"]


def test_an_entry_that_is_not_a_record_is_a_reject_with_a_reason(tmp_path: Path) -> None:
    with Journal(tmp_path / "news") as journal:
        journal.append_many(
            [entry(0), b"\xff\0\n", b'{\n"text": "t2"\n}', b"", b'{"text": "' + b"x" * 5_000_000 + b'"}']
        )
    (batch,) = open_log(tmp_path).read("0", 0, 5)
    assert batch["text"].to_pylist() == ["t0", None, "t2", None, "x" * 5_000_000]
    assert [reason is None for reason in batch["_reject"].to_pylist()] == [True, False, True, False, True]


def test_records_do_not_depend_on_how_their_entries_were_grouped(tmp_path: Path) -> None:
    rng = random.Random(5)
    odd = [b"", b"\xff", b'{"text": null}', b'{\n"text": "n"\n}', b'{"text": 1}', b"{}\r"]
    with Journal(tmp_path / "news") as together, Journal(tmp_path / "alone") as alone:
        for number in range(0, 12_000, 300):
            entries = [entry(at) for at in range(number, number + 300)]
            if rng.random() < 0.5:
                entries[rng.randrange(300)] = rng.choice(odd)
            if rng.random() < 0.2:
                together.append(entries[0])
                together.append_many(entries[1:])
            else:
                together.append_many(entries)
            for one in entries:
                alone.append(one)
    logs = open_log(tmp_path), JournalSource(path="alone").open(at(tmp_path))
    for start, stop in ((0, 12_000), (0, 1), (0, 9000), (150, 180), (299, 301), (450, 9100), (11_999, 12_000)):
        read = [list(log.read("0", start, stop)) for log in logs]
        assert read[0] == read[1]
        assert sum(batch.num_rows for batch in read[0]) == stop - start


def test_the_identity_is_the_id_of_the_journal_if_it_is_long_enough(tmp_path: Path) -> None:
    with Journal(tmp_path / "news") as journal:
        journal.append_many([entry(0), entry(1)])
        identity = open_log(tmp_path).identity("0", 2)
        journal.append(entry(2))
        assert open_log(tmp_path).identity("0", 2) == identity
        assert open_log(tmp_path).identity("0", 4) != identity
    with Journal(tmp_path / "other") as other:
        other.append_many([entry(0), entry(1)])
    assert JournalSource(path="other").open(at(tmp_path)).identity("0", 2) != identity


def test_reading_dropped_or_cut_entries_is_an_error_that_names_them(tmp_path: Path) -> None:
    with Journal(tmp_path / "news") as journal:
        journal.append_many([entry(0), entry(1)])
        journal.roll()
        journal.append(entry(2))
        journal.drop_before(2)
    log = open_log(tmp_path)
    assert (log.beginning("0"), log.end("0")) == (2, 3)
    with pytest.raises(Truncated, match=r"entry 1 was dropped; the first entry that is left is 2"):
        texts(log, 1, 3)
    with pytest.raises(AlteredLog, match=r"ends with entry 2, and entry 4 was read"):
        texts(log, 2, 5)


def test_a_missing_journal_is_found_without_opening_it(tmp_path: Path) -> None:
    ((option, problem),) = JournalSource(path="news").problems(at(tmp_path))
    assert (option, "holds no journal" in problem) == ("path", True)
    assert problem.endswith("creates one, and so does a pipeline with a sink of `type: journal`")
    with pytest.raises(ConfigError, match="holds no journal"):
        open_log(tmp_path)
    Journal(tmp_path / "news").close()
    assert not list(JournalSource(path="news").problems(at(tmp_path)))


def test_the_rows_of_one_pipeline_are_the_records_of_another(tmp_path: Path) -> None:
    schema = pa.schema([("_offset", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    sink = JournalSink(path="news").open(at(tmp_path), "cleaned", schema)
    sink.append(
        pa.table({"_offset": [5, 6], "text": ["a", "b"], "at": [1_000_000, None]}, schema=schema), Progress("x", 0)
    )
    sink.append(schema.empty_table(), Progress("x", 1))
    fields = {"text": "text", "time": "at"}
    log = JournalSource(path="news", fields=fields).open(at(tmp_path))
    (batch,) = log.read("0", 0, log.end("0"))
    assert batch.to_pylist() == [
        {"_offset": 0, "_time": 1_000_000, "_reject": None, "text": "a"},
        {"_offset": 1, "_time": None, "_reject": None, "text": "b"},
    ]


def test_rows_that_a_pipeline_appended_together_are_read_unchanged(tmp_path: Path) -> None:
    texts = [f'{number} "says"\n\\ \u2028 and goes on' for number in range(20_000)]
    rows = pa.table({"_offset": pa.array(range(20_000), pa.int64()), "text": texts})
    sink = JournalSink(path="news").open(at(tmp_path), "cleaned", rows.schema)
    for number, start in enumerate((0, 1, 3, 9_000)):
        sink.append(rows.slice(start, (1, 2, 8_997, 11_000)[number]), Progress("x", number))
    assert sink.progress() == Progress("x", 3)
    assert pa.concat_tables(sink.read()) == rows
    assert [batch["text"].to_pylist() for batch in open_log(tmp_path).read("0", 9_990, 9_992)] == [texts[9_990:9_992]]

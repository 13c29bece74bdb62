"""The files source: every row once and in order for all formats, also while files grow and after restarts."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.file_logs import lines, opened, texts, written

from millstream.errors import AlteredLog, ConfigError
from millstream.log.contracts import OpenContext
from millstream_connectors.files.lines_file import LinesFile
from millstream_connectors.files.source import FilesSource


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_any_range_is_read_the_same_in_any_order_by_any_copy(tmp_path: Path, form: str) -> None:
    name = written(tmp_path, form, 40_000)
    log = opened(tmp_path, name)
    assert [partition.name for partition in log.partitions()] == [name]
    assert (log.beginning(name), log.end(name)) == (0, 40_000)
    copy = opened(tmp_path, name)
    chance = random.Random(1)
    at = 0
    for _ in range(60):
        start = chance.choice([at, at, chance.randrange(40_001)])
        stop = min(40_000, start + chance.choice([0, 1, 10, 1024, 9000]))
        reader = chance.choice([log, copy])
        assert texts(reader, name, start, stop) == [f"t{row}" for row in range(start, stop)]
        at = stop
    assert texts(log, name) == [f"t{row}" for row in range(40_000)]


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_an_empty_file_has_no_records(tmp_path: Path, form: str) -> None:
    name = written(tmp_path, form, 0)
    log = opened(tmp_path, name)
    assert log.end(name) == 0
    assert texts(log, name) == []
    assert log.identity(name, 0) == opened(tmp_path, name).identity(name, 0)


def test_lines_of_any_length_and_content_are_rows(tmp_path: Path) -> None:
    rows = [
        b'{"text": "a"}',
        b"",
        b"not json",
        b'{"text": "' + b"x" * 5_000_000 + b'"}',
        b'{"text": "\xff"}',
        b'{"text": "z"}',
    ]
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    log = opened(tmp_path, "odd.jsonl")
    assert log.end("odd.jsonl") == 6
    assert texts(log, "odd.jsonl") == ["a", None, None, "x" * 5_000_000, None, "z"]
    reasons = [reason for batch in log.read("odd.jsonl", 0, 6) for reason in batch["_reject"].to_pylist()]
    assert [reason is None for reason in reasons] == [True, False, False, True, False, True]
    assert texts(log, "odd.jsonl", 4, 6) == [None, "z"]


def test_a_last_line_counts_without_its_newline_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = lines(3)
    line = b'{"text": "t3", "x": {"y": "}"}}'
    for cut in range(len(line)):
        path.write_bytes(whole + line[:cut])
        assert opened(tmp_path, "a.jsonl").end("a.jsonl") == 3, line[:cut]
    path.write_bytes(whole + line)
    log = opened(tmp_path, "a.jsonl")
    assert log.end("a.jsonl") == 4
    assert texts(log, "a.jsonl")[-1] == "t3"
    identity = log.identity("a.jsonl", 4)
    path.write_bytes(whole + line + b"\n" + lines(2, 4))
    assert log.end("a.jsonl") == 6
    assert log.identity("a.jsonl", 4) == identity
    assert texts(log, "a.jsonl", 3) == ["t3", "t4", "t5"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_newline_that_is_appended_later_adds_no_row_and_keeps_the_identity(
    tmp_path: Path, end: str, cut: int
) -> None:
    path = tmp_path / "a.jsonl"
    line, rest = b'{"text": "t2"}' + end.encode()[:cut], end.encode()[cut:]
    path.write_bytes(lines(2) + line)
    log = opened(tmp_path, "a.jsonl")
    assert log.end("a.jsonl") == 3
    assert texts(log, "a.jsonl") == ["t0", "t1", "t2"]
    identity = log.identity("a.jsonl", 3)
    path.write_bytes(lines(2) + line + rest + lines(2, 3))
    for same in (log, opened(tmp_path, "a.jsonl")):
        assert same.end("a.jsonl") == 5
        assert texts(same, "a.jsonl", 3) == ["t3", "t4"]
        assert same.identity("a.jsonl", 3) == identity != same.identity("a.jsonl", 2)


def test_in_a_complete_file_the_last_line_always_counts(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(2) + b'{"text": "br')
    assert opened(tmp_path, "a.jsonl").end("a.jsonl") == 2
    log = FilesSource(path="a.jsonl", ends=True).open(OpenContext(tmp_path, tmp_path / "other"))
    assert (log.end("a.jsonl"), log.ended("a.jsonl")) == (3, True)
    assert texts(log, "a.jsonl") == ["t0", "t1", None]


def test_appended_rows_are_found_and_no_byte_is_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")
    log, copy = opened(tmp_path, "a.jsonl"), opened(tmp_path, "a.jsonl")
    at = 0
    with path.open("ab", buffering=0) as file:
        for step in range(60):
            file.write(lines(300, step * 300)[:-7])
            assert log.end("a.jsonl") == step * 300 + 299
            file.write(lines(300, step * 300)[-7:])
            end = log.end("a.jsonl")
            assert end == (step + 1) * 300
            assert texts(copy, "a.jsonl", at, end) == [f"t{row}" for row in range(at, end)]
            at = end


def test_a_restart_counts_only_the_new_rows_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(5000))
    log = opened(tmp_path, "a.jsonl")
    identity = log.identity("a.jsonl", log.end("a.jsonl"))
    log.close()

    def refuse(*_: Any) -> Any:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(LinesFile, "_count_new", refuse)
        patched.setattr(LinesFile, "digest", refuse)
        log = opened(tmp_path, "a.jsonl")
        assert log.end("a.jsonl") == 5000
        assert log.identity("a.jsonl", 5000) == identity
        assert texts(log, "a.jsonl", 4321, 4322) == ["t4321"]
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(lines(10, 5000))
    log = opened(tmp_path, "a.jsonl")
    assert log.end("a.jsonl") == 5010
    assert log.identity("a.jsonl", 5000) == identity
    assert texts(log, "a.jsonl", 4999) == [f"t{row}" for row in range(4999, 5010)]


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_an_altered_file_has_another_identity(tmp_path: Path, form: str) -> None:
    name = written(tmp_path, form, 3000)
    identity = opened(tmp_path, name).identity(name, 3000)
    other = tmp_path / "other"
    other.mkdir()
    written(other, form, 2999)
    shutil.copy(other / name, tmp_path / name)
    assert opened(tmp_path, name).identity(name, 3000) != identity
    written(tmp_path, form, 3000)
    assert opened(tmp_path, name).identity(name, 3000) == identity


def test_a_byte_that_changes_in_place_changes_the_identity_from_its_row_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(3000))
    before = [opened(tmp_path, "a.jsonl").identity("a.jsonl", upto) for upto in (100, 2000, 2001, 3000)]
    data = bytearray(path.read_bytes())
    data[len(lines(2000)) + 11] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(0, 0))
    after = [opened(tmp_path, "a.jsonl").identity("a.jsonl", upto) for upto in (100, 2000, 2001, 3000)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, True, False, False]


def test_a_file_that_is_cut_replaced_or_removed_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(10))
    log = opened(tmp_path, "a.jsonl")
    assert log.end("a.jsonl") == 10
    path.write_bytes(lines(4))
    with pytest.raises(AlteredLog, match=r"a\.jsonl was cut or replaced"):
        log.end("a.jsonl")
    with pytest.raises(AlteredLog, match=r"a\.jsonl .* row 9 was to be read"):
        texts(log, "a.jsonl", 0, 10)
    path.unlink()
    with pytest.raises(AlteredLog, match=r"a\.jsonl is gone"):
        log.end("a.jsonl")


def test_every_file_is_a_partition_in_the_order_of_paths(tmp_path: Path) -> None:
    news = tmp_path / "news"
    for name in ("b/2.jsonl", "a/9.jsonl", "c.jsonl", ".hidden.jsonl", "_open/x.jsonl", "notes.txt"):
        (news / name).parent.mkdir(parents=True, exist_ok=True)
        (news / name).write_bytes(lines(1))
    written(news, "parquet", 2)
    log = opened(tmp_path, "news")
    assert [partition.name for partition in log.partitions()] == ["a/9.jsonl", "b/2.jsonl", "c.jsonl", "news.parquet"]
    (news / "a/0.jsonl").write_bytes(lines(7))
    assert log.partitions()[0].name == "a/0.jsonl"
    assert texts(log, "a/0.jsonl") == [f"t{row}" for row in range(7)]


def test_a_pattern_names_files_below_its_first_wildcard(tmp_path: Path) -> None:
    for name in ("x/2022/a.jsonl", "x/2023/a.jsonl", "x/2023/b.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(lines(1))
    log = opened(tmp_path, "x/*/a.jsonl")
    assert [partition.name for partition in log.partitions()] == ["2022/a.jsonl", "2023/a.jsonl"]
    shutil.copytree(tmp_path / "x", tmp_path / "moved")
    moved = opened(tmp_path, str(tmp_path / "moved" / "*" / "a.jsonl"))
    assert moved.identity("2022/a.jsonl", 1) == log.identity("2022/a.jsonl", 1)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nws.jsonl", r"there is no .*/nws\.jsonl; did you mean `.*/news\.jsonl`\?"),
        ("dat/news.jsonl", r"/dat is missing; did you mean `.*/data`\?"),
        ("data", r"data holds no file to read"),
        ("*.parquet", r"no file matches .*\*\.parquet"),
        ("dat*/*.jsonl", r"no file matches"),
    ],
)
def test_a_path_without_files_is_refused_with_a_suggestion(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "news.jsonl").write_bytes(lines(1))
    (tmp_path / "data").mkdir()
    with pytest.raises(ConfigError, match=said):
        opened(tmp_path, path)
    (problem,) = FilesSource(path=path).problems(OpenContext(tmp_path, tmp_path))
    assert problem[0] == "path"
    assert not list(FilesSource(path="news.jsonl").problems(OpenContext(tmp_path, tmp_path)))


def test_interrupted_unpacking_is_repeated_and_old_copies_are_deleted(tmp_path: Path) -> None:
    name = written(tmp_path, "jsonl.gz", 100)
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "0-0-0.jsonl.123.tmp").write_bytes(b"half")
    assert texts(opened(tmp_path, name), name) == [f"t{row}" for row in range(100)]
    (tmp_path / name).write_bytes(gzip.compress(lines(100)) + gzip.compress(lines(50, 100)))
    assert texts(opened(tmp_path, name), name) == [f"t{row}" for row in range(150)]
    assert len(list(cache.glob("*-*-*.jsonl"))) == 1


def test_a_gzip_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(1000))[:-20])
    with pytest.raises(AlteredLog, match=r"a\.jsonl\.gz is not a whole gzip file"):
        opened(tmp_path, "a.jsonl.gz").end("a.jsonl.gz")


def test_all_formats_give_the_same_records(tmp_path: Path) -> None:
    times = ["2022-02-08T12:00:00.5Z", None, "soon"]
    table = pa.table({"text": ["a", None, "c"], "label": ["x", "y", None], "time": times})
    rows = b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())
    (tmp_path / "a.jsonl").write_bytes(rows)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(rows))
    pq.write_table(table, tmp_path / "a.parquet")
    read = [next(opened(tmp_path, name).read(name, 0, 3)) for name in ("a.jsonl", "a.jsonl.gz", "a.parquet")]
    assert read[0].equals(read[1])
    assert read[0].equals(read[2])
    assert np.array_equal(read[0]["_reject"].is_valid().to_numpy(zero_copy_only=False), [False, True, True])

"""Parquet in the files source: columns of any type as text or times, rejects for invalid text, no repeated decoding."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.file_logs import opened, texts, written

from millstream.errors import AlteredLog, ConfigError

NOON = int(datetime(2022, 2, 8, 12, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("times", "micros"),
    [
        (pa.array([NOON, None], pa.timestamp("us", "UTC")), [NOON, None]),
        (pa.array([NOON * 1000 + 999, -1], pa.timestamp("ns")), [NOON, -1]),
        (pa.array([NOON // 1000, None], pa.timestamp("ms", "Europe/Berlin")), [NOON, None]),
        (pa.array([NOON // 1_000_000, 300_000_000_000], pa.timestamp("s")), [NOON, None]),
        (pa.array([date(2022, 2, 8), date(1, 1, 1)]), [NOON - 43_200_000_000, -62_135_596_800_000_000]),
        (pa.array([NOON / 1e6, None]), [NOON, None]),
        (pa.array([NOON // 1_000_000, 7], pa.int32()), [NOON, 7_000_000]),
        (pa.array(["2022-02-08T12:00:00Z", "soon"]), [NOON, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_parquet_times_of_any_type_are_microseconds(tmp_path: Path, times: pa.Array, micros: list[int | None]) -> None:
    pq.write_table(pa.table({"text": ["a", "b"], "time": times}), tmp_path / "a.parquet")
    (batch,) = opened(tmp_path, "a.parquet").read("a.parquet", 0, 2)
    assert batch["_time"].to_pylist() == micros
    assert batch["_reject"][0].as_py() is None
    assert (batch["_reject"][1].as_py() is None) == (micros[1] is not None or times.null_count == 1)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()], ids=str)
def test_numbers_of_parquet_become_the_same_text_as_those_of_json(tmp_path: Path, kind: pa.DataType) -> None:
    """The column is as pandas writes numbers of which some are missing."""
    numbers: list[float | None] = [1.0, None, 2.5, -3.0, 0.0]
    column = pa.array(np.array([*numbers[:1], np.nan, *numbers[2:]], kind.to_pandas_dtype()))
    pq.write_table(pa.table({"text": [*"abcde"], "label": column}), tmp_path / "a.parquet")
    lines = [json.dumps({"text": text, "label": number}) for text, number in zip("abcde", numbers, strict=True)]
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    labels = []
    for name in ("a.parquet", "a.jsonl"):
        (batch,) = opened(tmp_path, name).read(name, 0, 5)
        labels.append(batch["label"].to_pylist())
    assert labels[0] == labels[1] == ["1.0", None, "2.5", "-3.0", "0.0"]


def test_a_number_has_one_text_however_json_writes_it_and_in_parquet(tmp_path: Path) -> None:
    written = ["1e2", "100.00", "1E-5", "0.00001", "1.50", "1e22", "12345678901234567890.0"]
    pq.write_table(pa.table({"text": written, "label": [float(text) for text in written]}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "t", "label": {text}}}\n' for text in written))
    labels = []
    for name in ("a.parquet", "a.jsonl"):
        (batch,) = opened(tmp_path, name).read(name, 0, 7)
        labels.append(batch["label"].to_pylist())
    assert labels[0] == labels[1]
    assert labels[0][:5] == ["100.0", "100.0", "0.00001", "0.00001", "1.5"]


def test_parquet_columns_of_other_types_become_text(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["a", None, "c"]).dictionary_encode(),
            "label": pa.array([1, None, 3], pa.int8()),
            "big": pa.array(["x", "y", None], pa.large_string()),
            "yes": [True, False, None],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    fields = {"text": "text", "label": "label", "big": "big", "yes": "yes"}
    (batch,) = opened(tmp_path, "a.parquet", fields=fields).read("a.parquet", 0, 3)
    assert batch.drop_columns(["_offset", "_time"]).to_pylist() == [
        {"_reject": None, "text": "a", "label": "1", "big": "x", "yes": "true"},
        {"_reject": "no text", "text": None, "label": None, "big": None, "yes": None},
        {"_reject": None, "text": "c", "label": "3", "big": None, "yes": None},
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_text_that_is_not_utf_8_is_a_reject_with_the_byte(tmp_path: Path, kind: pa.DataType) -> None:
    pieces = [b"a goal", b"bad \xff byte", b"rain"]
    edges = np.cumsum([0, *map(len, pieces)]).astype(np.int32)
    text = pa.Array.from_buffers(pa.binary(), 3, [None, pa.py_buffer(edges), pa.py_buffer(b"".join(pieces))])
    if pa.types.is_dictionary(kind):
        text = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text.view(pa.string()))
    elif pa.types.is_large_string(kind):
        wide = pa.py_buffer(edges.astype(np.int64))
        text = pa.Array.from_buffers(pa.large_string(), 3, [None, wide, pa.py_buffer(b"".join(pieces))])
    else:
        text = text.view(kind)
    pq.write_table(pa.table({"text": text, "label": ["x", "y", "z"]}), tmp_path / "a.parquet")
    (batch,) = opened(tmp_path, "a.parquet").read("a.parquet", 0, 3)
    assert batch["_reject"].to_pylist() == [None, "text is not UTF-8 at byte 4", None]
    assert batch["text"].to_pylist() == ["a goal", None, "rain"]


def test_the_error_for_a_missing_parquet_column_lists_the_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"], "labels": ["x"], "parts": [["y"]]}), tmp_path / "a.parquet")
    assert texts(opened(tmp_path, "a.parquet"), "a.parquet") == ["a"]
    with pytest.raises(ConfigError, match=r"no column 'label' .* did you mean `labels`\?"):
        opened(tmp_path, "a.parquet", fields={"text": "text", "label": "label"}).end("a.parquet")
    with pytest.raises(ConfigError, match=r"no column 'body' .* it has text, labels, parts"):
        opened(tmp_path, "a.parquet", fields={"text": "body"}).end("a.parquet")
    with pytest.raises(ConfigError, match=r"'parts' is list"):
        opened(tmp_path, "a.parquet", fields={"text": "parts"}).end("a.parquet")


def test_a_parquet_file_that_is_damaged_is_named_as_an_altered_log(tmp_path: Path) -> None:
    whole = (tmp_path / written(tmp_path, "parquet", 100)).read_bytes()
    middle = len(whole) // 4
    for content in (b"PAR1 no", whole[:-20], whole[:middle] + bytes(20) + whole[middle + 20 :]):
        (tmp_path / "b.parquet").write_bytes(content)
        with pytest.raises(AlteredLog, match=r"b\.parquet is not a whole Parquet file"):
            texts(opened(tmp_path, "b.parquet"), "b.parquet")


def test_reading_on_in_parquet_does_not_decode_earlier_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(tmp_path, "parquet", 50_000)
    decoded: list[list[int]] = []
    real = pq.ParquetFile.iter_batches

    def counted(self: Any, *args: Any, row_groups: list[int], **options: Any) -> Any:
        decoded.append(row_groups[:1])
        return real(self, *args, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    log = opened(tmp_path, name)
    for start in range(0, 50_000, 500):
        assert texts(log, name, start, start + 500)[0] == f"t{start}"
    assert decoded == [[0]]
    assert texts(opened(tmp_path, name), name, 45_000, 45_001) == ["t45000"]
    assert decoded == [[0], [45]]

"""Every source and every sink that comes with Millstream passes the battery."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.brokers import SharedBroker
from support.file_sinks import KINDS
from support.plugin_classes import Letters

from millstream.cli import main
from millstream.log.journal import Journal
from millstream.plugin.checks import check_sink, check_source
from millstream_connectors.files.source import FilesSource
from millstream_connectors.generator import GeneratorSource
from millstream_connectors.journal import JournalSource
from millstream_connectors.kafka.sink import KafkaSink
from millstream_connectors.kafka.source import KafkaSource


def lines(first: int, count: int) -> bytes:
    rows = [{"text": f"text {row}", "label": f"l{row % 3}", "time": row} for row in range(first, first + count)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def append_to(path: Path) -> Callable[[], object]:
    def append() -> None:
        with path.open("ab") as file:
            file.write(lines(400, 5))

    return append


def test_a_growing_file_passes_the_battery(tmp_path: Path) -> None:
    path = tmp_path / "news.jsonl"
    path.write_bytes(lines(0, 400) + b"no JSON\n" + lines(0, 3))
    check_source(FilesSource(path="news.jsonl"), tmp_path, append_to(path))


def test_a_folder_of_files_passes_the_battery(tmp_path: Path) -> None:
    folder = tmp_path / "news"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines(0, 40))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines(50, 30)))
    (folder / "empty.jsonl").touch()
    table = pa.table({"text": [f"t{row}" for row in range(90)], "label": ["a", "b", None] * 30, "time": range(90)})
    pq.write_table(table, folder / "c.parquet", row_group_size=20)
    check_source(FilesSource(path="news"), tmp_path, append_to(folder / "a.jsonl"))


def test_a_journal_passes_the_battery(tmp_path: Path) -> None:
    with Journal(tmp_path / "news") as journal:
        journal.append_lines(lines(0, 300))
        for row in range(30):
            journal.append(lines(row, 1).strip())

        def append() -> None:
            journal.append_many([lines(row, 1).strip() for row in range(5)])

        check_source(JournalSource(path="news"), tmp_path, append)


@pytest.mark.parametrize(
    "options", [{"records": 200}, {"partitions": 3, "unlabelled": 0.3}, {"records": None, "rate": 1e6}], ids=str
)
def test_the_generator_passes_the_battery(tmp_path: Path, options: dict[str, Any]) -> None:
    check_source(GeneratorSource(**options), tmp_path)


def test_a_source_of_the_base_classes_passes_the_battery(tmp_path: Path) -> None:
    check_source(Letters(records=100), tmp_path)


@pytest.mark.kafka
def test_a_topic_passes_the_battery(tmp_path: Path, broker: SharedBroker) -> None:
    topic = f"battery-{secrets.token_hex(4)}"
    url = f"kafka://{broker.bootstrap}/{topic}"
    (tmp_path / "first.jsonl").write_bytes(lines(0, 300))
    (tmp_path / "more.jsonl").write_bytes(lines(300, 5))

    def append(name: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["log", "import", str(tmp_path / name), url])
        assert not ended.value.code

    append("first.jsonl")
    check_source(KafkaSource(bootstrap=broker.bootstrap, topic=topic), tmp_path, lambda: append("more.jsonl"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_in_files_passes_the_battery(tmp_path: Path, kind: str) -> None:
    check_sink(KINDS[kind], tmp_path, kills=12)


@pytest.mark.kafka
def test_a_sink_in_a_topic_passes_the_battery(tmp_path: Path, broker: SharedBroker) -> None:
    topic = f"battery-{secrets.token_hex(4)}"
    check_sink(KafkaSink(bootstrap=broker.bootstrap, topic=topic), tmp_path, kills=6)

"""The page about the formats on disk says what the files of a run hold."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.docs_pages import TEXTS, blocks, section, table
from support.docs_reader import Reader

from millstream.digests import Digest
from millstream.log.epochs import EpochReader, Totals
from millstream.log.journal import Journal, JournalReader
from millstream.log.journal.frames import HEADER_BYTES
from millstream.log.journal.segment import first_indexes, segment_path
from millstream.runs import directory
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, outputs_of

PAGE = "docs/internals/formats.md"


@pytest.fixture(scope="module")
def run(shared_folder: Path) -> Path:
    """The run directory that the commands of the page make."""
    Reader(shared_folder).plays(PAGE, "A run directory")
    return shared_folder / "runs/files"


def documented(name: str) -> Callable[..., Any]:
    """A function that the page shows."""
    names: dict[str, Any] = {}
    for block in blocks(PAGE, "python"):
        exec(block.text, names)  # noqa: S102
    function: Callable[..., Any] = names[name]
    return function


def keys(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_the_files_of_a_run_directory_are_in_the_table(run: Path) -> None:
    shown = {row[0].strip("`/") for row in table(TEXTS[PAGE], "file")}
    assert shown == directory._NAMES
    assert set(os.listdir(run)) <= shown
    assert json.loads((run / "run.json").read_text()).keys() == {"format", "base", "fixed"}


def test_the_function_of_the_page_reads_a_segment(run: Path, tmp_path: Path) -> None:
    entries = documented("entries")
    journal = tmp_path / "journal"
    with Journal(journal) as writer:
        writer.append(b"alone", tag=3)
        writer.append_many([b"one", b"two"], tag=4)
        writer.append_many([], tag=5)
    for folder in (run / "epochs", journal):
        [first] = first_indexes(folder)
        read = [(entry.tag, entry.payload) for entry in JournalReader(folder).read(first)]
        assert list(entries(segment_path(folder, first).read_bytes())) == read
    assert f"a header of {HEADER_BYTES} bytes" in TEXTS[PAGE]


def test_the_lines_of_the_epoch_log_have_the_keys_of_the_table(run: Path) -> None:
    rows = {row[0]: keys(row[1]) for row in table(section(PAGE, "## The epoch log"), "entry")}
    events = [keys(row[0]) for row in table(section(PAGE, "## The epoch log"), "event")]
    [first] = first_indexes(run / "epochs")
    lines = [json.loads(line) for _, line in documented("entries")(segment_path(run / "epochs", first).read_bytes())]
    assert {frozenset(line) for line in lines} == {frozenset(shown) for shown in rows.values()}
    assert all(set(event) in events for line in lines for event in line.get("events", ()))
    totals = section(PAGE, "## The epoch log").rpartition("reads the newest segment only:")[2]
    assert keys(totals) == json.loads(Totals().header()).keys()


def test_the_function_of_the_page_computes_the_digests_of_the_receipts(run: Path) -> None:
    directory = RunDirectory.find(run)
    output = outputs_of(directory, load_run(directory))["predictions"]
    rows = pa.concat_tables(output.read())
    types = {column.name: "text" if column.type == pa.string() else str(column.type) for column in rows.schema}
    whole = rows.set_column(rows.column_names.index("time"), "time", rows["time"].cast(pa.int64()))
    receipts = [receipt for receipt in EpochReader(directory.epochs).receipts() if receipt.attempt == 1]
    expected = sum((receipt.outputs["predictions"] for receipt in receipts), Digest())
    assert documented("digest")(types, whole.to_pylist()) == str(expected)


def test_the_functions_of_the_page_read_checkpoints_and_layers(run: Path) -> None:
    shown = {row[0].strip("`") for row in table(TEXTS[PAGE], "key of the manifest")}
    found = sorted((run / "checkpoints").iterdir())
    assert len(found) >= 3
    named: set[tuple[Any, ...]] = set()
    for path in found:
        assert re.fullmatch(r"\d{10}\.json", path.name)
        manifest = documented("manifest")(path.read_bytes())
        assert manifest.keys() == shown
        for step, shards in manifest["sections"].items():
            for shard, chain in shards.items():
                named |= {(file, step, int(shard), digest) for file, _, _, digest in chain}
    in_layers: set[tuple[Any, ...]] = set()
    for path in (run / "layers").glob("*.layer"):
        assert re.fullmatch(r"\d{6}-\d{10}\.layer", path.name)
        for step, shard, kind, content in documented("sections")(path.read_bytes()):
            assert kind in ("base", "changes") and content[:1] in (b"A", b"K")
            in_layers.add((path.name, step, shard, hashlib.sha256(content).hexdigest()[:32]))
    assert named <= in_layers and {file for file, *_ in named} == {file for file, *_ in in_layers}

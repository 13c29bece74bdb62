"""A config is refused if its rows would become records of its own source."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_result import Millstream

from millstream.log.journal import Journal

CIRCLES = {
    "a topic": (
        "{type: kafka, bootstrap: '127.0.0.1:9092', topic: documents}",
        "{type: kafka, bootstrap: '127.0.0.1:9092', topic: documents}",
    ),
    "a topic that a pattern matches": (
        "{type: kafka, bootstrap: '127.0.0.1:9092', pattern: 'doc.*'}",
        "{type: kafka, bootstrap: '127.0.0.1:9092', topic: documents}",
    ),
    "a journal": ("{type: journal, path: entries}", "{type: journal, path: ./entries}"),
    "a folder": ("{type: files, path: news}", "{type: files, path: news/}"),
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_a_sink_that_writes_to_its_own_source_is_refused(millstream: Millstream, folder: Path, circle: str) -> None:
    source, sink = CIRCLES[circle]
    (folder / "news").mkdir()
    (folder / "news/a.jsonl").write_text('{"text": "a"}\n')
    with Journal(folder / "entries") as journal:
        journal.append(b'{"text": "a"}')
    (folder / "circle.yaml").write_text(
        f"name: circle\nsource: {source}\npipeline: {{use: text_topics}}\nsinks:\n  predictions: {sink}\n"
    )
    ran = millstream("validate", "circle.yaml")
    assert ran.code == 2
    assert "circle.yaml:5 sinks.predictions: it writes to the location that source reads" in ran.err

"""Labelled documents in JSON Lines, as small pipelines read them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

__all__ = ["EPOCHS", "EPOCH_RECORDS", "add_topics", "document_lines", "sign_documents", "write_documents"]

EPOCHS = 8
EPOCH_RECORDS = 24
_TOPICS = ("harbour", "orchard", "glacier")


def write_documents(folder: Path, files: int = 2, records: int = EPOCHS * EPOCH_RECORDS, seed: int = 3) -> None:
    """Write labelled documents into `files` files, one partition each."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = list(document_lines(records, seed))
    for index in range(files):
        (folder / f"part{index}.jsonl").write_text("".join(line + "\n" for line in islice(lines, index, None, files)))


def document_lines(records: int, seed: int = 3) -> Iterator[str]:
    """Yield short labelled documents as JSON; some have no label, and one line is broken."""
    rng = random.Random(seed)
    for number in range(records):
        topic = rng.choice(_TOPICS)
        words = [f"{topic}{rng.randrange(12)}" if rng.random() < 0.6 else f"word{rng.randrange(40)}" for _ in range(8)]
        document: dict[str, Any] = {"text": " ".join(words), "time": 1_700_000_000 + number * 20 + rng.randrange(50)}
        if rng.random() < 0.9:
            document["label"] = topic
        yield json.dumps(document) if number != records // 2 else '{"text": "broken'


def add_topics(folder: Path) -> None:
    """Label the documents with three new topics every two epochs, so that epoch 4 has more than eight classes."""

    def add(document: dict[str, Any], index: int) -> None:
        if "label" in document:
            document["label"] += str(2 * index // (2 * EPOCH_RECORDS))

    _change(folder, add)


def sign_documents(folder: Path, seed: int = 5) -> None:
    """Add authors to the documents; some authors write many documents, and a few documents have no author."""
    dice = random.Random(seed)
    names = ["ann", "bob", "cléo", *(f"author {number}" for number in range(30)), None]
    _change(folder, lambda document, _: document.update(author=names[int(dice.random() ** 3 * len(names))]))


def _change(folder: Path, change: Callable[[dict[str, Any], int], None]) -> None:
    """Change every complete document; `change` gets the document and its index in the file."""
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().splitlines()
        for index, line in enumerate(lines):
            if line.endswith("}"):
                document = json.loads(line)
                change(document, index)
                lines[index] = json.dumps(document)
        path.write_text("".join(line + "\n" for line in lines))

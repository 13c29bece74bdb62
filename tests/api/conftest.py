"""A small pipeline over documents, as a Python program runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.documents import write_documents

CONFIG: dict[str, Any] = {
    "name": "news",
    "source": {"type": "files", "path": "documents"},
    "pipeline": {"use": "text_topics", "popularity": {"window": {"type": "tumbling", "size": "10m"}}},
    "engine": {"type": "local", "epoch": {"max_records": 24}},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `news.yaml` and its documents: eight epochs of 24 records."""
    monkeypatch.chdir(tmp_path)
    write_documents(tmp_path / "documents")
    (tmp_path / "news.yaml").write_text(yaml.safe_dump(CONFIG))
    return tmp_path


@pytest.fixture
def config(folder: Path) -> dict[str, Any]:
    """The content of `news.yaml`."""
    found: dict[str, Any] = yaml.safe_load((folder / "news.yaml").read_text())
    return found

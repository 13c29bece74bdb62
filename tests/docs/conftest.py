"""A folder in which a reader of the documents can type their commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.docs_pages import ROOT

SMALLER = {"records: 50000": "records: 5000", "max_records: 5000": "max_records: 500", "size: 1h": "size: 6m"}


def checkout(folder: Path) -> Path:
    """A checkout as far as the commands need one, with a smaller demo."""
    shutil.copytree(ROOT / "configs", folder / "configs")
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    demo = folder / "configs" / "demo.yaml"
    text = demo.read_text()
    for before, after in SMALLER.items():
        assert before in text
        text = text.replace(before, after)
    demo.write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return checkout(tmp_path)


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for tests that only look at what one run left."""
    return checkout(tmp_path_factory.mktemp("checkout"))

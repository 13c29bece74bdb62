"""The data to cite Millstream agree with the package."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

import millstream

ROOT = Path(__file__).parent.parent


def test_the_citation_has_the_version_and_the_licence_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # those that the format requires
    assert citation["title"].lower() == project["name"]
    assert citation["version"] == project["version"] == millstream.__version__
    assert citation["license"] == project["license"]
    assert citation["abstract"] == project["description"]

"""Links lead to files and headings, the README is short, and the rooms and the make targets are there."""

from __future__ import annotations

import inspect
import re

import pytest
from support.docs_pages import ROOT, TEXTS, blocks, section, table

from millstream.guarantees.lifecycle import EpochLifecycle
from millstream.guarantees.sink_guard import SinkGuard

MOST_WORDS = 1000
PACKAGES = ("platform/millstream", "connectors", "models", "pipelines", "benchmarks")


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files_and_headings(name: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", TEXTS[name]):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / name).parent.joinpath(file).resolve() if file else ROOT / name
        path = target.relative_to(ROOT).as_posix()
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(path), link


def anchors(name: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them.

    >>> "first-run" in anchors("README.md")
    True
    """
    text = (ROOT / name).read_text()
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(TEXTS["README.md"].split()) < MOST_WORDS


def test_the_rooms_are_there() -> None:
    rooms = [row[0].strip("`") for row in table(section("docs/architecture.md", "## Rooms"), "folder")]
    folders = {path.parent for top in PACKAGES for path in (ROOT / top).rglob("*.py")}
    assert rooms and all((ROOT / room).is_dir() for room in rooms)
    for folder in folders - {ROOT / "platform/millstream"}:
        inside = folder.relative_to(ROOT).as_posix() + "/"
        assert any(inside.startswith(room) for room in rooms if room != "platform/millstream/"), inside


def test_the_guard_of_exactly_once_is_the_line_that_the_text_shows() -> None:
    [line] = [block.text.strip() for block in blocks("docs/architecture.md", "python")]
    assert line in inspect.getsource(SinkGuard.lacks)
    assert "lacks(" in inspect.getsource(EpochLifecycle._deliver)


def test_the_make_targets_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    asked = set(re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", "\n".join(TEXTS.values()), re.M))
    assert {one or other for one, other in asked} <= targets


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    groups = re.findall(r"^\| word \|.*\n\|---.*\n((?:\|.*\n)+)", TEXTS["docs/glossary.md"], re.M)
    words = [[row.split("|")[1].strip().lower() for row in group.splitlines()] for group in groups]
    assert words and all(group == sorted(group) for group in words)
    every = [word for group in words for cell in group for word in cell.split(", ")]
    assert len(every) == len(set(every))

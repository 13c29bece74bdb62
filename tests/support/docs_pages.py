"""The README and the pages of docs/: their code blocks and their tables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "TEXTS", "Block", "blocks", "section", "table"]

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("**/*.md"))
TEXTS = {name: (ROOT / name).read_text() for name in ("README.md", *PAGES, "CONTRIBUTING.md", "CHANGELOG.md")}

_BLOCK = re.compile(r"^## (?P<heading>[^\n]*)$|^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block: its document, the heading of its section, its language, its text."""

    document: str
    heading: str
    language: str
    text: str

    def commands(self) -> Iterator[str]:
        """The commands of a shell block; one may span lines."""
        command = ""
        for line in self.text.splitlines():
            command += line + "\n"
            if not line.endswith("\\"):
                yield command.strip()
                command = ""


def blocks(document: str, language: str = "", heading: str = "") -> list[Block]:
    """The code blocks of a document, in order."""
    found, under = [], ""
    for part in _BLOCK.finditer(TEXTS[document]):
        if part["heading"] is not None:
            under = part["heading"]
        else:
            found.append(Block(document, under, part["language"], part["text"]))
    return [b for b in found if language in ("", b.language) and heading in ("", b.heading)]


def section(document: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same level or above."""
    level = heading.partition(" ")[0]
    below = TEXTS[document].partition(f"\n{heading}\n")[2]
    assert below, f"{document} has no {heading}"
    return re.split(rf"^#{{1,{len(level)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def table(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose head begins with this cell, without the head."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]

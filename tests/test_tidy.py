"""The house rules of CONTRIBUTING.md that a machine can check: docstrings, file names, public names, retired words."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("platform", "connectors", "models", "pipelines")
CODE = (*PACKAGES, "tests", "benchmarks", "scripts")

OPENINGS = ("What", "Who", "Whose", "Which", "How", "Whether", "Whatever", "Whoever", "Where")
"""A docstring names its subject; with these words it opens with a question about it."""

NO_NOUNS = {"again", "alone", "anew", "away", "begun", "fresh", "kept", "live", "many", "quiet", "told", "worst"}
"""Words that end no file name; those that end in -ing or -ed are found by their ending."""
NOUNS = {"encoding", "feed", "finding", "running", "speed", "stemming", "string", "thinning"}
"""Nouns with one of these endings."""

RETIRED = {
    r"save_every": "checkpoint_every",
    r"\bpassages?\b": "lifecycle",
    r"\bcrew\b": "worker pool",
    r"\bkeeper\b": "sequencer",
    r"\bhurry\b": "fail_fast",
    r"\bpatience\b": "timeout",
    r"\btold\b": "reported, sent, printed",
    r"\bin_turn\b": "predict_then_learn",
    r"\b(pulse|vitals|tally)\b": "run stats",
    r"\bengine\.run:": "engine.placement",
    r"\bbeside the work\b": "in the background",
    r"\bwhat has come\b": "new records",
    r"\bwhoever\b": "the name of the thing",
    r"\bleans? on\b": "is based on",
    r"\banew\b": "again",
}
"""Words that the glossary has replaced, and the word to use."""


@cache
def tracked() -> tuple[str, ...]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def modules(*folders: str) -> Iterator[str]:
    return (name for name in tracked() if name.endswith(".py") and name.startswith(tuple(f"{f}/" for f in folders)))


def docstrings(module: str) -> Iterator[tuple[int, str]]:
    """Every docstring of a module with its line, those of attributes included."""
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, value.value


def test_docstrings_name_their_subject() -> None:
    found = [
        f"{module}:{line}: {text.splitlines()[0]}"
        for module in modules(*CODE)
        for line, text in docstrings(module)
        if text.strip() and re.split(r"\W", text.strip(), maxsplit=1)[0] in OPENINGS
    ]
    assert not found, "\n".join(found)


def test_files_are_named_by_nouns() -> None:
    found = []
    for module in modules(*PACKAGES, "benchmarks", "tests"):
        last = Path(module).stem.rpartition("_")[2]
        no_noun = last in NO_NOUNS or (last.endswith(("ing", "ed")) and last not in NOUNS)
        if no_noun:
            found.append(module)
    assert not found, "\n".join(found)


def test_no_test_imports_a_test_or_a_conftest() -> None:
    """Code that several tests import is in tests/support."""
    found = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module in modules("tests")
        for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom) and re.search(r"\b(conftest|test_\w+)\b", ast.unparse(node))
    ]
    assert not found, "\n".join(found)


def test_public_names_are_used_by_another_file() -> None:
    """A name in `__all__` is used in another file: code, a test, an entry point or the docs for authors."""
    words = {
        name: Counter(re.findall(r"\w+", (ROOT / name).read_text(encoding="utf-8")))
        for name in tracked()
        if name.endswith((".py", ".md", ".toml")) or name.startswith("scripts/")
    }
    found = []
    for module in modules(*PACKAGES):
        if module.endswith("__init__.py"):
            continue
        for name in exported(module):
            if not any(name in used for other, used in words.items() if other != module):
                found.append(f"{module}: {name}")
    assert not found, "\n".join(found)


def exported(module: str) -> list[str]:
    for node in ast.parse((ROOT / module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def test_retired_words_do_not_return() -> None:
    found = []
    for name in tracked():
        if not name.endswith((".py", ".md", ".yaml", ".yml", ".toml")) or name == "tests/test_tidy.py":
            continue
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
            for word, instead in RETIRED.items():
                if re.search(word, line, re.IGNORECASE):
                    found.append(f"{name}:{number}: {word!r} is now {instead!r}: {line.strip()}")
    assert not found, "\n".join(found)

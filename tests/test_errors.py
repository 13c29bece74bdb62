"""The docstring of `errors` shows the exceptions and their exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from millstream import errors
from millstream.errors import MillstreamError

Line = tuple[str, str | None, int]
"""An exception, its parent and its exit code."""


def documented() -> Iterator[Line]:
    """The exceptions in the tree of the docstring."""
    parents: list[str] = []
    for branch, name, code in re.findall(r"^([│├└─ ]*)(\w+) +(\d): ", errors.__doc__ or "", re.MULTILINE):
        depth = len(branch) // 4
        yield name, parents[depth - 1] if depth else None, int(code)
        parents[depth:] = [name]


def defined(kind: type[MillstreamError] = MillstreamError, parent: str | None = None) -> Iterator[Line]:
    """The exceptions that the module defines: this class and its subclasses."""
    yield kind.__name__, parent, kind.exit_code
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from defined(below, kind.__name__)


def test_the_docstring_shows_each_exception_below_its_parent_with_its_exit_code() -> None:
    lines = list(documented())
    assert len(lines) == len(set(lines))
    assert set(lines) == set(defined())


def test_the_module_exports_each_exception() -> None:
    names = {name for name, *_ in defined()} | {"DISK_FULL", "ConfigProblem"}
    assert sorted(errors.__all__) == sorted(names)

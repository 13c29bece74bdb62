"""The exceptions and exit codes are those that the docstring of `errors` draws."""

from __future__ import annotations

import re
from collections.abc import Iterator

from millstream import errors
from millstream.errors import MillstreamError

Line = tuple[str, str | None, int]
"""An exception, its parent and its exit code."""


def drawn() -> Iterator[Line]:
    """The lines of the tree in the docstring."""
    parents: list[str] = []
    for branch, name, code in re.findall(r"^([│├└─ ]*)(\w+) +(\d): ", errors.__doc__ or "", re.MULTILINE):
        depth = len(branch) // 4
        yield name, parents[depth - 1] if depth else None, int(code)
        parents[depth:] = [name]


def defined(kind: type[MillstreamError] = MillstreamError, parent: str | None = None) -> Iterator[Line]:
    """The classes of the module, below this one."""
    yield kind.__name__, parent, kind.exit_code
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from defined(below, kind.__name__)


def test_the_docstring_draws_every_exception_below_its_parent_with_its_exit_code() -> None:
    lines = list(drawn())
    assert len(lines) == len(set(lines))
    assert set(lines) == set(defined())


def test_the_module_exports_every_exception() -> None:
    names = {name for name, *_ in defined()} | {"DISK_FULL"}
    assert sorted(errors.__all__) == sorted(names)

"""Failures of checks: each is an AssertionError with the name of the check, what was found, and the remedy."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["named_failures"]

_CHECKS = (Path(__file__).parent, Path(__file__).parents[2] / "plugin" / "checks")
"""The folders of the checks: an assertion that fails elsewhere is one of the part's own."""


@contextmanager
def named_failures(check: str, part: object) -> Iterator[None]:
    """Let every failure of a check begin with its name; an error that the part raises is a failure, too.

    >>> with named_failures("a_range_is_the_same_in_every_read", "Csv(path='a')"):
    ...     None.name  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    AssertionError: a_range_is_the_same_in_every_read: Csv(path='a'): it raised AttributeError: ... has no attribute ...
    """
    try:
        yield
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, AssertionError) and Path(last.filename).parent in _CHECKS:
            message = f"{check}: {error}"
        else:
            found = f"it raised {type(error).__name__}: {error}, {_place(error)}"
            remedy = "mend the error, or return what the method's contract says (docs/plugins.md)"
            message = f"{check}: {part}: {found}; {remedy}"
        raise AssertionError(message) from error


def _place(error: Exception) -> str:
    """The last line outside of installed packages: of the part's own code, or of the check that used its answer."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_file() and "site-packages" not in frame.filename]
    last = (own or frames)[-1]
    return f"at {last.filename}, line {last.lineno}"

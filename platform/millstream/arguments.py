"""Checks of arguments of the Python API: each returns the argument in one form, or raises `ConfigError`."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping
from numbers import Number, Real
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any, NoReturn

from millstream.errors import ConfigError

__all__ = [
    "MOST_NUMBER",
    "environment",
    "flag",
    "is_flag_of_numpy",
    "number_above_zero",
    "path",
    "paths",
    "refuse",
    "settings",
    "text",
    "texts",
    "whole_number",
]

MOST_NUMBER = 1e12
"""The largest rate or number of failures: a larger one is a mistake, and its square may be infinite."""


def refuse(name: str, value: object, expected: str) -> NoReturn:
    """Raise the error for an argument that is not allowed; `expected` is the end of a sentence with "give"."""
    is_short = value is None or isinstance(value, str | Number)
    shown = short_repr(value) if is_short else f"an object of the class {type(value).__name__}"
    message = f"{name}: {shown} is not allowed; give {expected}"
    raise ConfigError(message)


def flag(name: str, value: object, expected: str = "True or False") -> bool:
    """Return True or False, also of NumPy: any other value, such as "no", is a mistake."""
    if not isinstance(value, bool) and not is_flag_of_numpy(value):
        refuse(name, value, expected)
    return bool(value)


def is_flag_of_numpy(value: object) -> bool:
    """True for a single truth value of NumPy, which this module does not import."""
    return getattr(getattr(value, "dtype", None), "kind", None) == "b" and getattr(value, "ndim", None) == 0


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return a whole number of at least `least`, also one of NumPy.

    >>> whole_number("records", 10)
    10
    >>> whole_number("records", 1.5)
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: records: 1.5 is not allowed; give a whole number of at least 1
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least:
        refuse(name, value, f"a whole number of at least {least}")
    return number


def number_above_zero(name: str, value: object) -> float:
    """Return a number above 0, at most `MOST_NUMBER`, also one of NumPy.

    >>> number_above_zero("failures_per_month", 0)
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: failures_per_month: 0 is not allowed; give a number above 0, at most 1e+12
    """
    try:
        number = 0.0 if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # an int may be too large for a float
        number = math.inf
    if not 0 < number <= MOST_NUMBER:
        refuse(name, value, f"a number above 0, at most {MOST_NUMBER:g}")
    return number


def text(name: str, value: object, example: str) -> str:
    """Return a text; the message for any other value has the example."""
    if not isinstance(value, str):
        refuse(name, value, f"a text, as in {example!r}")
    return value


def path(name: str, value: object) -> Path:
    """Return the path of a file or a folder, given as text or as an object with a path."""
    try:
        found = os.fspath(value)  # type: ignore[call-overload]
        valid = isinstance(found, str) and bool(found) and b"\0" not in os.fsencode(found)
    except (TypeError, UnicodeEncodeError):
        valid = False
    if not valid:
        refuse(name, value, "a path, as text or as a pathlib.Path")
    return Path(found)


def paths(name: str, value: object) -> list[Path]:
    """Return paths, given as one path or as a list of paths."""
    if isinstance(value, str | os.PathLike):
        return [path(name, value)]
    if not isinstance(value, list | tuple):
        refuse(name, value, "a path or a list of paths")
    return [path(f"{name}[{index}]", each) for index, each in enumerate(value)]


def settings(name: str, value: object) -> dict[str, Any]:
    """Return values by key path; none for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        refuse(name, value, 'a mapping of key paths to values, as in {"engine.type": "local"}')
    return {text(f"{name}, a key path", key, "engine.type"): inner for key, inner in value.items()}


def environment(name: str, value: object) -> dict[str, str] | None:
    """Return the variables that replace those of the process; a message has no value, which may be a secret."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        refuse(name, value, "a mapping of texts, as os.environ is")
    for key, outside in value.items():
        if not isinstance(key, str) or not isinstance(outside, str):
            message = f"{name}: the name {key!r} or its value is no text; give a mapping of texts, as os.environ is"
            raise ConfigError(message)
    return dict(value)


def texts(name: str, value: object) -> list[str]:
    """Return a list of texts of a list, a generator or another series."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        refuse(name, value, 'a list of texts, as in ["a late goal"]')
    found = list(value)
    for index, each in enumerate(found):
        if not isinstance(each, str) or not _is_unicode(each):
            refuse(f"{name}[{index}]", each, "a text of valid Unicode")
    return list(map(str, found))


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True

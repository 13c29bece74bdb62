"""The check of the packages that Millstream requires."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Callable, Iterator, Mapping

from millstream.cli.finding import Finding
from millstream.extras import install_command

__all__ = ["check_packages"]


def check_packages(
    requirements: list[str] | None = None, installed: Callable[[str], str] = importlib.metadata.version
) -> Iterator[Finding]:
    """Check that the packages which Millstream requires are installed, in a version that it allows."""
    wanted = importlib.metadata.requires("millstream") or [] if requirements is None else requirements
    wrong = False
    for extra, name, versions in filter(None, map(_requirement, wanted)):
        package = f"{name}{versions}"
        try:
            found = installed(name)
        except importlib.metadata.PackageNotFoundError:
            wrong = wrong or not extra
            if extra:
                yield Finding("packages", "note", f"{name} of the extra `{extra}` is missing", install_command(extra))
            else:
                yield Finding("packages", "problem", f"{name} is missing", f"pip install '{package}'")
            continue
        if not _allows(versions, found):
            wrong = True
            text = f"{name} {found} is installed, and Millstream needs {versions}"
            yield Finding("packages", "problem", text, f"pip install '{package}'")
    if not wrong:
        own = importlib.metadata.version("millstream")
        yield Finding("packages", "ok", f"Millstream {own} with its packages, on Python {platform.python_version()}")


_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(?:;(.*))?")
_NOT_CHECKED = ("all", "java")
"""Extras that need no finding of their own: all the others together; and one Java, which `check_java` looks for."""
_EXTRA = re.compile(r"""\s*extra\s*==\s*["']([^"']+)["']\s*""")


def _requirement(text: str) -> tuple[str, str, str] | None:
    """Return extra, name and versions of a requirement; None if it is not about a package of this machine.

    >>> _requirement("kafka-python<3.1,>=3.0; extra == 'kafka'"), _requirement("millstream[kafka]; extra == 'all'")
    (('kafka', 'kafka-python', '<3.1,>=3.0'), None)
    """
    found = _REQUIREMENT.fullmatch(text.strip())
    if found is None or found[1] == "millstream":
        return None
    extra = _EXTRA.fullmatch(found[3]) if found[3] else None
    if found[3] and (extra is None or extra[1] in _NOT_CHECKED):
        return None  # or a marker about other machines
    return extra[1] if extra else "", found[1], found[2].strip()


_COMPARISONS: Mapping[str, Callable[[list[int], list[int]], bool]] = {
    ">=": lambda found, given: found >= given,
    "<=": lambda found, given: found <= given,
    "==": lambda found, given: found == given,
    "!=": lambda found, given: found != given,
    ">": lambda found, given: found > given,
    "<": lambda found, given: found < given,
}


def _allows(versions: str, found: str) -> bool:
    """Return True if a version is in the ranges; only numbers are compared.

    >>> _allows(">=2.2,<3", "2.10.1"), _allows(">=2.2,<3", "3.0"), _allows("", "1")
    (True, False, True)
    """
    for operator, given in re.findall(r"([<>=!]=|[<>])\s*([0-9.]+)", versions):
        if not _COMPARISONS[operator](*_padded(_numbers(found), _numbers(given))):
            return False
    return True


def _numbers(version: str) -> list[int]:
    leading = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return [int(number) for number in leading[0].split(".")] if leading else []


def _padded(one: list[int], other: list[int]) -> tuple[list[int], list[int]]:
    length = max(len(one), len(other))
    return one + [0] * (length - len(one)), other + [0] * (length - len(other))

"""Checks of this machine: packages, Java, disk, clock and caches. Each finding has the remedy of its problem."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from millstream.errors import MillstreamError

__all__ = ["Finding", "check_caches", "check_clock", "check_disk", "check_java", "check_packages", "check_spark"]

_LEAST_BYTES = 10**9
_LONGEST_SYNC = 0.1
_LARGEST_SKEW = 2.0
_SYNCS = 9
_DAY = 86_400


@dataclass(frozen=True)
class Finding:
    """The result of one check. A `note` is no problem: something is missing that is not known to be needed."""

    subject: str
    level: Literal["ok", "note", "problem"]
    text: str
    fix: str = ""


# ---------------------------------------------------------------- packages


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
                yield Finding(
                    "packages", "note", f"{name} of the extra `{extra}` is missing", _install(f"millstream[{extra}]")
                )
            else:
                yield Finding("packages", "problem", f"{name} is missing", _install(package))
            continue
        if not _allows(versions, found):
            wrong = True
            text = f"{name} {found} is installed, and Millstream needs {versions}"
            yield Finding("packages", "problem", text, _install(package))
    if not wrong:
        own = importlib.metadata.version("millstream")
        yield Finding("packages", "ok", f"Millstream {own} with its packages, on Python {platform.python_version()}")


def _install(package: str) -> str:
    return f"pip install '{package}'"


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


# ---------------------------------------------------------------- Spark and Java


def check_spark(*, needed: bool) -> Finding:
    """Check that PySpark is installed."""
    if importlib.util.find_spec("pyspark") is None:
        return Finding("Spark", "problem" if needed else "note", "PySpark is missing", _install("millstream[spark]"))
    return Finding("Spark", "ok", f"PySpark {importlib.metadata.version('pyspark')}")


def check_java(*, needed: bool) -> Finding:
    """Check that there is a Java for Spark."""
    from millstream.java import java_home

    try:
        return Finding("Java", "ok", f"Java in {java_home()}")
    except MillstreamError as error:
        text, _, fix = str(error).partition(": ")
        return Finding("Java", "problem" if needed else "note", text, fix.rstrip("."))


# ---------------------------------------------------------------- disk and clock


def _sync_seconds(folder: Path) -> float:
    """Return the median time of a write of 4 KiB and its sync."""
    seconds = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(b"." * 4096)
            file.flush()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def check_disk(
    folder: Path,
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    sync_seconds: Callable[[Path], float] = _sync_seconds,
) -> Iterator[Finding]:
    """Check the room in the folder of run directories, and the time of a sync: an epoch waits for several of them."""
    elsewhere = "give --run a folder on another disk"
    try:
        free, sync = free_bytes(folder), sync_seconds(folder)
    except OSError as error:
        yield Finding("disk", "problem", f"{folder} cannot be written: {error.strerror}", elsewhere)
        return
    room, speed = f"{free / 1e9:,.1f} GB are free in {folder}", f"a sync takes {sync * 1000:.1f} ms"
    if free < _LEAST_BYTES:
        yield Finding("disk", "problem", room, f"make room, or {elsewhere}")
    if sync > _LONGEST_SYNC:
        yield Finding("disk", "problem", speed, f"use a local disk: {elsewhere}")
    if free >= _LEAST_BYTES and sync <= _LONGEST_SYNC:
        yield Finding("disk", "ok", f"{room}; {speed}")


def check_clock(folder: Path, now: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Check the clock against the times of files: those of Millstream's own code, and that of a new file."""
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now()))
    fix = "set the clock, and let a time service keep it right (NTP)"
    if now() < Path(__file__).stat().st_mtime - _DAY:
        yield Finding("clock", "problem", f"the clock shows {shown}, and Millstream was installed later", fix)
        return
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b".")
            file.flush()
            skew = abs(os.fstat(file.fileno()).st_mtime - now())
    except OSError:
        return  # `check_disk` reports it
    if skew > _LARGEST_SKEW:
        text = f"the clock and that of the disk of {folder} differ by {skew:,.0f} s"
        yield Finding("clock", "problem", text, fix)
    else:
        yield Finding("clock", "ok", shown)


# ---------------------------------------------------------------- caches


def check_caches(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Check that the folders for compiled code, downloads and temporary files can be written."""
    yield _compiled_code()
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream"
    yield _writable("downloads", cache, "let XDG_CACHE_HOME name a folder that you can write to")
    try:
        yield _writable("temporary files", Path(tempfile.gettempdir()), "let TMPDIR name another folder")
    except FileNotFoundError:
        yield Finding("caches", "problem", "there is no folder for temporary files", "let TMPDIR name one")


def _compiled_code() -> Finding:
    try:
        from millstream.compiled import jit
        from millstream.compiled.code_cache import CodeCache

        return Finding("caches", "ok", f"compiled code: {CodeCache(jit.compiled).cache_path}")
    except MillstreamError as error:
        text, _, fix = str(error).partition("; ")
        return Finding("caches", "problem", text, fix)
    except RuntimeError:
        text = "compiled code cannot be kept, so every start compiles it again, for some seconds"
        return Finding("caches", "problem", text, "let NUMBA_CACHE_DIR name a folder that you can write to")


def _writable(subject: str, folder: Path, fix: str) -> Finding:
    """Check a folder, or the nearest one above it that exists: the rest is made when it is needed."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if os.access(existing, os.W_OK | os.X_OK):
        return Finding("caches", "ok", f"{subject}: {folder}")
    return Finding("caches", "problem", f"{subject}: {existing} cannot be written", fix)

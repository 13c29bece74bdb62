"""An archive of loaded Java classes, which makes every start of Spark seconds faster.

A run with MILLSTREAM_RECORD_CLASSES=1 in its environment makes the archive (`make setup` starts such a run). There is
one archive for each pair of Spark and Java, in the user's cache, with about 160 MB. Without the archive, Spark starts
more slowly.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

__all__ = ["archive_path", "finish_archive", "is_recording", "java_options"]

_QUIET = "-Xlog:disable"  # no warnings on standard output about classes that an archive cannot hold: they are harmless


def is_recording(environment: Mapping[str, str] = os.environ) -> bool:
    """True if this run records classes and makes the archive."""
    return environment.get("MILLSTREAM_RECORD_CLASSES") == "1"


def archive_path(java: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The path of the archive for this Java and the installed Spark."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    build = f"{java.resolve()} {pyspark.__file__} {pyspark.__version__}"
    return cache / "millstream" / f"spark-{hashlib.sha256(build.encode()).hexdigest()[:16]}.jsa"


def java_options(java: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The Java options that use the archive, or make it."""
    path = archive_path(java, environment)
    if is_recording(environment):
        path.parent.mkdir(parents=True, exist_ok=True)
        return [_QUIET, f"-XX:ArchiveClassesAtExit={path.with_suffix('.making')}"]
    return [_QUIET, f"-XX:SharedArchiveFile={path}", "-Xshare:auto"] if path.is_file() else []


def finish_archive(java: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Put the new archive in place; called once Java has ended and the archive is complete."""
    if is_recording(environment):
        path = archive_path(java, environment)
        with suppress(FileNotFoundError):  # this Java cannot make an archive
            path.with_suffix(".making").rename(path)

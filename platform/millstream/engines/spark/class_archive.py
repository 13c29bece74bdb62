"""Java's classes ready to be mapped: an archive that takes seconds off every start of Spark.

Made once for a pair of Spark and Java, by a run with MILLSTREAM_RECORD_CLASSES=1 in its environment (`make setup` does
it); kept in the user's cache, about 160 MB. Without it everything works, and starts more slowly.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

__all__ = ["archive", "options", "recording", "settle"]

_QUIET = "-Xlog:disable"  # what does not fit an archive is reported on standard output, and does no harm


def recording(environment: Mapping[str, str] = os.environ) -> bool:
    """True if this run makes the archive."""
    return environment.get("MILLSTREAM_RECORD_CLASSES") == "1"


def archive(java: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The path of the archive for this Java and the installed Spark."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    build = f"{java.resolve()} {pyspark.__file__} {pyspark.__version__}"
    return cache / "millstream" / f"spark-{hashlib.sha256(build.encode()).hexdigest()[:16]}.jsa"


def options(java: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Java's options to use the archive, or to make it."""
    path = archive(java, environment)
    if recording(environment):
        path.parent.mkdir(parents=True, exist_ok=True)
        return [_QUIET, f"-XX:ArchiveClassesAtExit={path.with_suffix('.making')}"]
    return [_QUIET, f"-XX:SharedArchiveFile={path}", "-Xshare:auto"] if path.is_file() else []


def settle(java: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Java has ended: what it recorded takes its place, whole."""
    if recording(environment):
        path = archive(java, environment)
        with suppress(FileNotFoundError):  # this Java cannot make one
            path.with_suffix(".making").rename(path)

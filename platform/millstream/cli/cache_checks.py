"""The check of the folders for compiled code, downloads and temporary files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from millstream.cli.finding import Finding
from millstream.errors import MillstreamError

__all__ = ["check_caches"]


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

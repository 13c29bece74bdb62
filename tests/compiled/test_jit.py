"""Compiled code is cached for the next start, and a warning announces a compilation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMPILES = "from millstream_models.compiled.words import _rotate_left; assert _rotate_left(1, 3) == 8"
WARNING = "compiling functions for this machine, {}; the compilation takes some seconds\n"
READ_ONLY = {"NUMBA_CACHE_LOCATOR_CLASSES": "numba.core.caching.UserProvidedCacheLocator"}  # so no folder is left


def messages(folder: Path, **environment: str) -> str:
    """The messages of a process that calls a compiled function, with its code cached in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILES],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stdout
    return done.stderr


def test_the_first_start_warns_and_the_next_uses_the_cached_code(tmp_path: Path) -> None:
    assert messages(tmp_path) == WARNING.format("once for each function")
    assert messages(tmp_path) == ""


def test_without_a_writable_folder_every_start_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    every = WARNING.format(
        "at every start, until the environment variable NUMBA_CACHE_DIR names a folder for the compiled code"
    )
    for _ in range(2):
        assert messages(tmp_path / "file", **READ_ONLY) == every

"""What is compiled is kept for the next start, and whoever waits for it is told so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMPILES = "from millstream_models.compiled.words import _turned; assert _turned(1, 3) == 8"
TOLD = "compiling the model and what counts words, {}; it takes some seconds\n"
READ_ONLY = {"NUMBA_CACHE_LOCATOR_CLASSES": "numba.core.caching.UserProvidedCacheLocator"}  # that alone: none is left


def said(folder: Path, **environment: str) -> str:
    """What a process that calls something compiled says, where what is compiled is kept in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILES],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stdout
    return done.stderr


def test_it_is_told_once_and_kept_for_the_next_start(tmp_path: Path) -> None:
    assert said(tmp_path) == TOLD.format("once")
    assert said(tmp_path) == ""


def test_without_a_folder_that_can_be_written_to_it_is_compiled_at_every_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    every = TOLD.format("at every start, until NUMBA_CACHE_DIR names a folder to keep it in")
    for _ in range(2):
        assert said(tmp_path / "file", **READ_ONLY) == every

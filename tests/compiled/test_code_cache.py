"""The cache returns the right machine code or none, even after its files were damaged or the sources changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import millstream_models

PACKAGE = Path(millstream_models.__file__).parent
ASK = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from millstream_models.compiled import called
assert called.__file__.startswith(sys.argv[1])
for kind in sys.argv[2:]:
    print(called.answer(np.array([10], kind)))
"""
CALLED = """
from millstream.compiled.jit import compiled
from millstream_models.compiled.inner import inner

@compiled
def answer(values):
    return values[0] + inner(values[0])
"""
LOADED = """
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
"""
"""Code after which numba has imported the names that it uses itself."""
MOVED = {
    "function": f"{LOADED}import numba.core.serialize as private; del private.dumps\n",
    "class": f"{LOADED}import numba.core.caching as private; del private.FunctionCache\n",
}
"""Code that hides a name of numba that the cache needs, as if it had moved in a later numba."""
NO_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
INNER = """
from millstream.compiled.jit import compiled

@compiled
def inner(value):
    return value * {by}
"""


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., tuple[list[str], str]]:
    """Calls functions of a copy of the package in a process; returns their results and the process's messages."""
    copy = tmp_path / "copy/millstream_models"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "compiled/called.py").write_text(CALLED)
    kept = tmp_path / "kept"

    def process(*kinds: str, by: int = 100, before: str = "") -> tuple[list[str], str]:
        (copy / "compiled/inner.py").write_text(INNER.format(by=by))
        done = subprocess.run(
            [sys.executable, "-c", before + ASK, str(tmp_path / "copy"), *kinds],
            env={**os.environ, "NUMBA_CACHE_DIR": str(kept), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split(), done.stderr

    return process


def codes(folder: Path) -> list[Path]:
    return sorted((folder / "kept").rglob("*answer*.code"))


def test_a_function_is_compiled_again_after_another_file_that_it_calls_has_changed(
    tmp_path: Path, ask: Callable[..., tuple[list[str], str]]
) -> None:
    assert ask("float64")[0] == ["1010.0"]
    [before] = codes(tmp_path)
    assert ask("float64", by=7)[0] == ["80.0"]
    [after] = codes(tmp_path)
    assert before != after  # and the code from the older sources is deleted


def test_each_type_of_numbers_has_its_own_file(tmp_path: Path, ask: Callable[..., tuple[list[str], str]]) -> None:
    assert ask("int32", "float64")[0] == ["1010", "1010.0"]
    first, second = codes(tmp_path)
    shutil.copy(second, tmp_path / "other")
    first.unlink()  # as if one of two files had not been written
    assert ask("float64", "int32")[0] == ["1010.0", "1010"]
    assert codes(tmp_path) == [first, second]


@pytest.mark.parametrize("damage", ["empty", "cut", "altered"])
def test_a_damaged_file_is_replaced(tmp_path: Path, ask: Callable[..., tuple[list[str], str]], damage: str) -> None:
    assert "compiling" in ask("float64")[1]
    assert ask("float64")[1] == ""
    [path] = codes(tmp_path)
    whole = path.read_bytes()
    half = len(whole) // 2
    damaged = {"empty": b"", "cut": whole[:half], "altered": whole[:half] + b"\xff\xfe" + whole[half + 2 :]}[damage]
    path.write_bytes(damaged)
    answers, messages = ask("float64")
    assert answers == ["1010.0"] and "compiling" in messages
    assert path.read_bytes() != damaged


def test_on_a_full_disk_nothing_is_cached_and_a_warning_says_so(
    tmp_path: Path, ask: Callable[..., tuple[list[str], str]]
) -> None:
    answers, messages = ask("float64", before=NO_ROOM)
    assert answers == ["1010.0"] and "cannot be cached" in messages
    assert codes(tmp_path) == []


@pytest.mark.parametrize("moved", MOVED)
def test_a_numba_without_a_private_name_is_used_with_its_own_cache_and_one_warning(
    tmp_path: Path, ask: Callable[..., tuple[list[str], str]], moved: str
) -> None:
    answers, messages = ask("float64", before=MOVED[moved])
    assert answers == ["1010.0"]
    assert messages.count("numba's own cache is used") == 1
    assert codes(tmp_path) == []
    assert list((tmp_path / "kept").rglob("*answer*.nbi"))  # the index of numba's own cache
    assert "compiling" not in ask("float64", before=MOVED[moved])[1]

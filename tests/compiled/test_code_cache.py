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
import sys
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
"""
"""Code after which numba has imported the names that it uses itself."""
HIDDEN = (
    LOADED
    + """
from numba.core.caching import FunctionCache

def hide(name):
    def find(cache, asked):
        if asked == name and type(cache).__name__ == "CodeCache":
            raise AttributeError(name)
        return object.__getattribute__(cache, asked)
    FunctionCache.__getattribute__ = find

hide("{name}")
"""
)
"""Code that hides an attribute of numba's cache from the cache of Millstream, but not from numba."""


def without(module: str, name: str) -> str:
    """Code that hides a name of a module of numba from Millstream; numba itself has imported it before."""
    return f"""{LOADED}
import types, {module} as real
moved = types.ModuleType("{module}")
vars(moved).update({{name: value for name, value in vars(real).items() if name != "{name}"}})
sys.modules["{module}"] = moved
"""


MOVED_FROM_CACHE = {
    "dumps": without("numba.core.serialize", "dumps"),
    "FunctionCache": without("numba.core.caching", "FunctionCache"),
    "_index_key": HIDDEN.replace("{name}", "_index_key"),
    "_impl": HIDDEN.replace("{name}", "_impl"),
    "cache_path": HIDDEN.replace("{name}", "cache_path"),
}
"""Code that hides a name of numba that the cache needs, as if it had moved in a later numba."""
MOVED = {
    "event": (f"{LOADED}sys.modules['numba.core.event'] = None\n", "no message announces a compilation"),
    "Listener": (without("numba.core.event", "Listener"), "no message announces a compilation"),
    "register": (without("numba.core.event", "register"), "no message announces a compilation"),
    "registry": (f"{LOADED}sys.modules['numba.core.registry'] = None\n", "the first call of a compiled function"),
    "cpu_target": (without("numba.core.registry", "cpu_target"), "the first call of a compiled function"),
    "refresh": (
        without("numba.core.registry", "cpu_target") + "moved.cpu_target = object()\n",
        "the first call of a compiled function",
    ),
}
"""Code that hides a private name of numba outside of its cache, and the effect that a warning names."""
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


@pytest.mark.parametrize("moved", MOVED_FROM_CACHE)
def test_a_numba_without_a_name_that_the_cache_needs_is_used_with_its_own_cache_and_one_warning(
    tmp_path: Path, ask: Callable[..., tuple[list[str], str]], moved: str
) -> None:
    answers, messages = ask("float64", before=MOVED_FROM_CACHE[moved])
    assert answers == ["1010.0"]
    assert messages.count("numba's own cache of compiled code is used") == 1
    assert codes(tmp_path) == []
    assert list((tmp_path / "kept").rglob("*answer*.nbi"))  # the index of numba's own cache
    assert "compiling" not in ask("float64", before=MOVED_FROM_CACHE[moved])[1]


@pytest.mark.parametrize("moved", MOVED)
def test_a_numba_without_another_private_name_computes_the_same_and_one_warning_names_the_effect(
    tmp_path: Path, ask: Callable[..., tuple[list[str], str]], moved: str
) -> None:
    before, effect = MOVED[moved]
    answers, messages = ask("float64", before=before)
    assert answers == ["1010.0"] and len(codes(tmp_path)) == 1
    assert messages.count("lacks a private name") == messages.count(effect) == 1

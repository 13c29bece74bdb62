"""Jars of pinned source packages: fetched once by pip with their hashes, kept in `.bench/`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks.kit.measurement import Unmeasured

__all__ = ["jars"]

_ROOT = Path(__file__).parents[2]

_BACKEND = '''\
"""Replaces setuptools: returns the metadata that a source package contains, and runs none of its code."""

from pathlib import Path


class __legacy__:
    @staticmethod
    def prepare_metadata_for_build_wheel(folder, settings=None):
        text = Path("PKG-INFO").read_text()
        fields = dict(line.split(": ", 1) for line in text.splitlines() if line.startswith(("Name: ", "Version: ")))
        info = Path(folder) / f"{fields['Name'].replace('-', '_')}-{fields['Version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(text)
        return info.name
'''


def jars(name: str, wanted: Callable[[str], bool], say: Callable[[str], None], root: Path = _ROOT) -> Path:
    """The folder of the wanted jars, chosen by file name, of the source packages in `contenders/NAME.txt`."""
    pins = root / "benchmarks" / "contenders" / f"{name}.txt"
    home = root / ".bench" / name
    folder, ready = home / "jars", home / "fetched.txt"
    if ready.exists() and ready.read_text() == pins.read_text():
        return folder
    say(f"fetching {', '.join(line.split()[0] for line in pins.read_text().splitlines())}")
    shutil.rmtree(home, ignore_errors=True)
    folder.mkdir(parents=True)
    for package in _packages(name, pins, home):
        with tarfile.open(package) as archive:
            for member in archive:
                jar = Path(member.name).name
                if member.isfile() and jar.endswith(".jar") and wanted(jar):
                    member.name = jar
                    archive.extract(member, folder, filter="data")
        package.unlink()
    ready.write_text(pins.read_text())
    return folder


def _packages(name: str, pins: Path, home: Path) -> list[Path]:
    """The archives, whose hashes pip has checked."""
    backend = home / "backend" / "setuptools"
    backend.mkdir(parents=True)
    (backend / "__init__.py").write_text("")
    (backend / "build_meta.py").write_text(_BACKEND)
    archives = home / "archives"
    download = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    as_they_are = ["--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]
    places = ["--dest", str(archives), "--requirement", str(pins)]
    ran = subprocess.run(
        [_python_with_pip(home), *download, *as_they_are, *places],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(backend.parent)},
    )
    if ran.returncode:
        lines = ran.stderr.strip().splitlines()
        reason = next((line for line in lines if line.startswith("ERROR: ")), lines[-1] if lines else "no reason given")
        raise Unmeasured(f"the jars of {name} cannot be fetched: pip says: {reason.removeprefix('ERROR: ')}")
    return sorted(archives.iterdir())


def _python_with_pip(home: Path) -> str:
    """This Python, or one in a new environment if this one has no pip."""
    if find_spec("pip") is not None:
        return sys.executable
    subprocess.run([sys.executable, "-m", "venv", str(home / "tools")], capture_output=True, check=True)
    return str(home / "tools" / "bin" / "python")

"""The wheel works without the checkout: with the core alone, and with every extra."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping, Sequence
from email.message import Message
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("pyproject.toml", "LICENSE", "docs", "platform", "connectors", "models", "pipelines")
MOST_PACKAGES, MOST_BYTES = 20, 450_000_000  # without bytecode, which pip compiles
UNSATISFIED = """
from importlib.metadata import requires, version
from packaging.requirements import Requirement
for requirement in map(Requirement, requires("millstream")):
    if not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in EXTRAS):
        if requirement.name != "millstream" and version(requirement.name) not in requirement.specifier:
            print(requirement)
"""

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("wheel")]  # one process makes the environments


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `make wheel` builds it, from a copy of the files that it needs."""
    copy, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, copy / part)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and the packages that it requires without extras."""
    environment = tmp_path_factory.mktemp("core")
    venv.create(environment, with_pip=True, symlinks=True)
    pins = environment / "pins.txt"  # pip takes hashes only for what is named itself, not for what that requires
    pins.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)))
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip = [*pip, "--no-compile"]  # no test imports most of the modules
    subprocess.run([*pip, "--constraint", str(pins), str(wheel)], check=True, env=plain_environment())
    return environment


@pytest.fixture(scope="module")
def complete(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with the packages of this one but not this checkout."""
    environment = tmp_path_factory.mktemp("complete")
    venv.create(environment, with_pip=True, symlinks=True)
    [packages] = environment.glob("lib/python*/site-packages")
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, env=plain_environment())
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib"))
    return environment


def plain_environment() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MILLSTREAM"))}


def demo(environment: Path, folder: Path, *options: str) -> dict[str, Any]:
    """Run the demo from the wheel in an empty folder; return its summary."""
    shutil.copy(ROOT / "configs/demo.yaml", folder)
    command = [str(environment / "bin/millstream"), "run", "demo.yaml", "--json", *options]
    done = subprocess.run(command, cwd=folder, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def digests(summary: Mapping[str, Any]) -> Sequence[str]:
    short = [digest.partition("-")[2][:12] for digest in (summary["model"], summary["state"])]
    assert [len(digest) for digest in short] == [12, 12], summary
    return short


def test_the_core_is_small_and_runs_the_demo_on_the_local_engine(core: Path, tmp_path: Path) -> None:
    [packages] = core.glob("lib/python*/site-packages")
    installed = [found for found in distributions(path=[str(packages)]) if found.name not in ("pip", "setuptools")]
    assert len(installed) <= MOST_PACKAGES, [found.name for found in installed]
    files = [path for found in installed for path in found.files or () if path.suffix != ".pyc"]
    assert sum(path.size or 0 for path in files) <= MOST_BYTES
    summary = demo(core, tmp_path, "--set", "engine.type=local")
    assert all(digest in (ROOT / "README.md").read_text() for digest in digests(summary))
    assert set(summary["versions"]) == {"python", "millstream", "numba", "numpy", "pyarrow"}


def test_the_core_names_the_extra_that_the_demo_needs_for_spark(core: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "configs/demo.yaml", tmp_path)
    command = [str(core / "bin/millstream"), "validate", "demo.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'millstream[spark]'" in done.stderr


@pytest.mark.spark
def test_with_all_extras_the_demo_runs_on_spark(complete: Path, tmp_path: Path) -> None:
    asked = ["-c", f"EXTRAS = ['all', *{extras()!r}]\n{UNSATISFIED}"]
    python = [str(complete / "bin/python"), *asked]
    checked = subprocess.run(python, env=plain_environment(), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert checked.stdout == ""
    summary = demo(complete, tmp_path)
    assert all(digest in (ROOT / "README.md").read_text() for digest in digests(summary))
    where = [str(complete / "bin/python"), "-c", "import millstream; print(millstream.__file__)"]
    found = subprocess.run(where, env=plain_environment(), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(complete))


def extras() -> list[str]:
    """The extras in `all`."""
    [every] = re.findall(r'^all = \["millstream\[(.*)\]"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return str(every).split(",")


def test_the_metadata_names_the_python_of_the_tests_and_no_address(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier", [])
    pythons = [re.search(r":: (3\.\d+)$", classifier) for classifier in classifiers]
    assert f"3.{sys.version_info.minor}" in [found[1] for found in pythons if found]
    assert [text for text in classifiers if text.startswith("Operating System")] == [
        "Operating System :: POSIX :: Linux"
    ]
    assert metadata.get_all("Project-URL") is None


def test_the_description_has_no_link_that_needs_the_repository(metadata: Message) -> None:
    description = metadata.get_payload()
    assert isinstance(description, str) and "# Installing" in description
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert all(link.startswith("https://") for link in links), links

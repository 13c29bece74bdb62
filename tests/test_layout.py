"""The promises of the folders, the pins and the packaging."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = [
    "platform/millstream",
    "connectors/millstream_connectors",
    "models/millstream_models",
    "pipelines/millstream_pipelines",
]
PLUG_INS = [entry for entry in distribution("millstream").entry_points if entry.group.startswith("millstream.")]


def test_the_platform_folder_does_not_shadow_pythons_platform_module() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-java.txt", "constraints-notebooks.txt"])
def test_every_pin_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"://|^-", text, re.MULTILINE)
    pins = re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    assert pins
    for pin in pins:
        assert re.match(r"[\w.-]+==\S+", pin), pin
        assert "--hash=sha256:" in pin, pin


def test_jupyterlab_and_the_platform_share_packages_of_the_same_versions() -> None:
    """`make notebooks` installs into the same environment, and must leave the pins of `make setup` as they are."""
    ours, jupyter = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("constraints.txt", "constraints-notebooks.txt")
    )
    shared = ours.keys() & jupyter.keys()
    assert {"ipykernel", "nbclient"} <= shared
    assert {name: jupyter[name] for name in shared} == {name: ours[name] for name in shared}


def test_there_are_plug_ins_of_every_kind() -> None:
    kinds = {"sources", "sinks", "steps", "models", "pipelines", "logs", "commands"}
    assert {entry.group for entry in PLUG_INS} == {f"millstream.{kind}" for kind in kinds}


@pytest.mark.parametrize("entry", PLUG_INS, ids=lambda entry: f"{entry.group}:{entry.name}")
def test_every_entry_point_loads(entry: EntryPoint) -> None:
    assert callable(entry.load())

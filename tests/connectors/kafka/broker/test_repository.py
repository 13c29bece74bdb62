"""The address of the Maven repository: from the environment, from Maven's settings, or the default of a build tool."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker.repository import find_repository

CENTRAL = "https://central.example.org/maven2"
SUPER_POM = f"""\
<project>
  <repositories>
    <repository><id>snapshots</id><url>https://snapshots.example.org</url></repository>
    <repository><id>central</id><url>{CENTRAL}</url></repository>
  </repositories>
</project>
"""


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """A user with an empty home directory, and an installed Maven."""
    maven = tmp_path / "maven"
    (maven / "bin").mkdir(parents=True)
    (maven / "bin" / "mvn").touch(mode=0o755)
    (maven / "lib").mkdir()
    with zipfile.ZipFile(maven / "lib" / "maven-model-builder-3.9.jar", "w") as archive:
        archive.writestr("org/apache/maven/model/pom-4.0.0.xml", SUPER_POM)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mvn").symlink_to(maven / "bin" / "mvn")
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin")}


@pytest.fixture
def mirrors(tmp_path: Path) -> Callable[..., Path]:
    """Writes Maven's settings with mirrors: pairs of the repositories that it mirrors, and the address."""

    def write(*mirrors: tuple[str, str], folder: str = "home/.m2") -> Path:
        rows = "".join(f"<mirror><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror>" for of, url in mirrors)
        path = tmp_path / folder / "settings.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        xmlns = "http://maven.apache.org/SETTINGS/1.2.0"
        path.write_text(f'<settings xmlns="{xmlns}"><mirrors>{rows}</mirrors></settings>')
        return path

    return write


def test_the_environment_variable_has_priority(environment: Mapping[str, str], mirrors: Callable[..., Path]) -> None:
    mirrors(("central", "https://mirror.example.org"))
    found = find_repository({**environment, "MILLSTREAM_MAVEN": "https://own.example.org/maven2/"})
    assert str(found) == "https://own.example.org/maven2 (from MILLSTREAM_MAVEN)"


def test_the_users_mirror_comes_next(environment: Mapping[str, str], mirrors: Callable[..., Path]) -> None:
    path = mirrors(("central", "https://mirror.example.org/"))
    mirrors(("*", "https://site.example.org"), folder="maven/conf")
    assert str(find_repository(environment)) == f"https://mirror.example.org (from the mirror in {path})"
    path.unlink()
    assert find_repository(environment).address == "https://site.example.org"


@pytest.mark.parametrize(
    ("mirror_of", "address"),
    [
        ("*", "https://mirror.example.org"),
        ("external:*, !internal", "https://mirror.example.org"),
        ("internal,central", "https://mirror.example.org"),
        ("*,!central", CENTRAL),
        ("internal", CENTRAL),
        ("external:http:*", CENTRAL),
    ],
)
def test_a_mirror_counts_if_it_covers_central(
    environment: Mapping[str, str], mirrors: Callable[..., Path], mirror_of: str, address: str
) -> None:
    mirrors((mirror_of, "https://mirror.example.org"))
    assert find_repository(environment).address == address


def test_a_mirror_of_central_alone_goes_before_a_mirror_of_all(
    environment: Mapping[str, str], mirrors: Callable[..., Path]
) -> None:
    mirrors(("*", "https://all.example.org"), ("central", "https://alone.example.org"))
    assert find_repository(environment).address == "https://alone.example.org"


def test_the_default_is_that_of_the_installed_maven(environment: Mapping[str, str], tmp_path: Path) -> None:
    assert str(find_repository(environment)) == f"{CENTRAL} (from the default of Maven in {tmp_path / 'maven'})"


def test_without_maven_the_default_is_that_of_ivy_in_pyspark(environment: Mapping[str, str]) -> None:
    found = find_repository({**environment, "PATH": ""})
    assert found.origin == "the default of Ivy in pyspark"
    assert found.address.startswith("https://") and found.address.endswith("/maven2")


def test_without_any_of_them_the_error_names_the_variable(
    environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MillstreamError, match=r"no Maven repository is configured, .*: set MILLSTREAM_MAVEN"):
        find_repository({**environment, "PATH": ""})


@pytest.mark.parametrize(
    "address", ["http://maven.example.org", "ftp://maven.example.org", "maven.example.org", "https:"]
)
def test_only_https_is_allowed_beyond_this_machine(environment: Mapping[str, str], address: str) -> None:
    with pytest.raises(MillstreamError, match=f"MILLSTREAM_MAVEN is {address}, which is no https address"):
        find_repository({**environment, "MILLSTREAM_MAVEN": address})


def test_an_address_with_a_password_is_refused_and_not_shown(environment: Mapping[str, str]) -> None:
    with pytest.raises(MillstreamError, match="has a user or password in its address") as refused:
        find_repository({**environment, "MILLSTREAM_MAVEN": "https://user:secret@maven.example.org"})
    assert "secret" not in str(refused.value)


def test_settings_that_are_no_xml_are_an_error(environment: Mapping[str, str], mirrors: Callable[..., Path]) -> None:
    path = mirrors()
    path.write_text("<settings>")
    with pytest.raises(MillstreamError, match=rf"^{path} cannot be read: no element found.*; correct it, or set"):
        find_repository(environment)

"""Kafka's jars: fetched from a registry into the user's cache, and whole whenever a broker starts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from millstream.engines.spark.java import java_home
from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker import jars
from millstream_connectors.kafka.broker.jars import VERSION, Jar, ensure, pinned
from millstream_connectors.kafka.broker.paths import jar_folder

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="session")
def java() -> Path:
    return java_home() / "bin" / "java"


@pytest.fixture
def whole(java: Path) -> Path:
    """The user's own cache."""
    return ensure(java, lambda message: None)


@pytest.fixture
def registry(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with all the jars, in a folder."""
    folder = tmp_path / "registry"
    for jar in pinned():
        shelf = place(folder, jar)
        shelf.parent.mkdir(parents=True)
        shelf.symlink_to(whole / jar.file)
    settings = jars._SETTINGS.replace("<ibiblio ", f'<ibiblio root="{folder.as_uri()}/" ')
    monkeypatch.setattr(jars, "_SETTINGS", settings)
    return folder


@pytest.fixture
def cache(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another cache, whole too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = jar_folder(VERSION)
    folder.mkdir(parents=True)
    for jar in pinned():
        (folder / jar.file).symlink_to(whole / jar.file)
    return folder


def place(registry: Path, jar: Jar) -> Path:
    return registry.joinpath(*jar.group.split("."), jar.name, jar.version, jar.file)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)


def are_whole(folder: Path) -> bool:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    return found == {jar.file: jar.sha256 for jar in pinned()}


def test_kafka_is_pinned_in_the_version_that_is_told() -> None:
    assert {jar.version for jar in pinned() if jar.group == "org.apache.kafka"} == {VERSION}


def test_a_cache_that_is_whole_needs_no_registry(java: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_fetch", None)
    told: list[str] = []
    assert ensure(java, told.append) == cache
    assert told == []


def test_an_empty_cache_is_filled_and_how_far_it_is_is_told(
    java: Path, registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    told: list[str] = []
    folder = ensure(java, told.append)
    assert folder == tmp_path / "empty" / "millstream" / f"kafka-{VERSION}"
    assert are_whole(folder)
    assert told[0] == f"fetching Apache Kafka {VERSION} into {folder}, once: 45 MB ..."
    assert told[-1] == f"fetching Apache Kafka {VERSION} into {folder}, once: 45 of 45 MB ..."
    assert len(told) <= 11


def test_what_is_missing_or_damaged_is_fetched_anew_and_nothing_else(java: Path, registry: Path, cache: Path) -> None:
    missing, damaged, *others = pinned()
    (cache / missing.file).unlink()
    damage(cache / damaged.file)
    for jar in others:
        place(registry, jar).unlink()
    told: list[str] = []
    ensure(java, told.append)
    assert are_whole(cache)
    assert told[0] == f"{damaged.file} is damaged in {cache}"


def test_a_jar_that_is_not_the_one_that_is_pinned_is_named_and_not_used(
    java: Path, registry: Path, cache: Path
) -> None:
    other = pinned()[0]
    damage(place(registry, other))
    (cache / other.file).unlink()
    with pytest.raises(MillstreamError, match=f"{other.file} as fetched is not the one that is pinned"):
        ensure(java, lambda message: None)
    assert sorted(path.name for path in cache.iterdir()) == sorted(jar.file for jar in pinned()[1:])


def test_without_a_registry_it_is_told_what_could_not_be_fetched(java: Path, registry: Path, cache: Path) -> None:
    absent = pinned()[0]
    place(registry, absent).unlink()
    (cache / absent.file).unlink()
    with pytest.raises(MillstreamError, match=rf"^Apache Kafka {VERSION} could not be fetched: .*{absent.name}"):
        ensure(java, lambda message: None)

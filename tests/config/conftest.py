"""Fixtures that make packages with plug-ins look installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.config import plugins

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that puts a package on the path: its name, its source, and its entry points."""

    def installed(name: str, source: str, **groups: dict[str, str]) -> None:
        folder = tmp_path / name
        metadata = folder / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (folder / f"{name}.py").write_text(source)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n")
        text = "".join(
            f"[millstream.{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
            for group, points in groups.items()
        )
        (metadata / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        plugins.registered.cache_clear()
        plugins.load.cache_clear()

    yield installed
    plugins.registered.cache_clear()
    plugins.load.cache_clear()


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the plug-in of `tests/plugin` on the path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "plugin"))
    plugins.registered.cache_clear()
    yield
    plugins.registered.cache_clear()
    plugins.load.cache_clear()

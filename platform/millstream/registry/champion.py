"""The promotion of a version: the alias of the champion moves to it, and running pipelines follow."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from millstream.extras import require
from millstream.registry.client import Registry
from millstream.registry.failures import store_failures_as_errors
from millstream.registry.promotion import CHAMPION, Promotion
from millstream.registry.settings import quietly, tracking_uri
from millstream.timestamps import wall_clock

__all__ = ["promote"]


@dataclass(frozen=True)
class Promoted:
    """A version that is the champion now; `before` is the one that was it, if there was one."""

    name: str
    version: int
    digest: str
    before: str | None
    as_is: bool
    store: str

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


def promote(name: str, version: int, *, as_is: bool = False) -> Promoted:
    """Make a version the champion of its model, and let running pipelines follow.

    The version is fetched before, and refused if it was altered.
    """
    require("mlflow", "the registry of models")
    store = tracking_uri(None, os.environ)

    def work() -> Promoted:
        with store_failures_as_errors(store):
            return _promote(Registry(store), name, version, as_is)

    return quietly(work)


def _promote(registry: Registry, name: str, version: int, as_is: bool) -> Promoted:
    with tempfile.TemporaryDirectory(prefix="millstream-version-") as folder:
        _, fetched = registry.fetch(f"models:/{name}/{version}", Path(folder))
    before = registry.address(f"models:/{name}@{CHAMPION}")
    last = registry.promotion(name)
    at = max(wall_clock(), last.at + 1 if last is not None else 0)  # of two promotions, the later one counts
    registry.promote(Promotion(name, version, at, as_is), CHAMPION)
    return Promoted(name, version, fetched.digest, before, as_is, registry.uri)

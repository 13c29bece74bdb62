"""The versions that a config names: `model: {from: models:/NAME@ALIAS}` instead of a type and options."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.config.document import KeyPath, Setting
from millstream.config.load import Loaded
from millstream.config.registered_model import RegisteredModel
from millstream.errors import MillstreamError
from millstream.extras import require
from millstream.registry.client import Registry
from millstream.registry.failures import store_failures_as_errors
from millstream.registry.settings import quietly, tracking_uri
from millstream.state.model_version import ModelVersion
from millstream.timestamps import format_time

__all__ = ["Entering", "fetch_versions", "names_versions", "with_models"]


@dataclass(frozen=True)
class Entering:
    """A version with which the model of a step begins, and its address in the registry."""

    uri: str
    version: ModelVersion


def names_versions(loaded: Loaded) -> bool:
    """True if the config takes a model from a registry."""
    return any(True for _ in _places(loaded))


def fetch_versions(loaded: Loaded) -> tuple[Loaded, Mapping[str, Entering]]:
    """Fetch the versions that the config names; the config with their types and options, and the versions by step."""
    found = list(_places(loaded))
    if not found:
        return loaded, {}
    require("mlflow", "a model from a registry")
    uri = tracking_uri(loaded.config.mlflow or None, os.environ)

    def fetch() -> dict[str, Entering]:
        versions: dict[str, Entering] = {}
        with store_failures_as_errors(uri):
            registry = Registry(uri)
            for step, _, name in found:
                with tempfile.TemporaryDirectory(prefix="millstream-version-") as folder:
                    versions[step] = Entering(*registry.fetch(name, Path(folder)))
        return versions

    with loaded.redacting():
        versions = quietly(fetch)
    models = {step: _model_of(each.version) for step, each in versions.items()}
    latest = [each.version.latest for each in versions.values() if each.version.latest is not None]
    return with_models(loaded, models, format_time(max(latest)) if latest else None), versions


def with_models(loaded: Loaded, models: Mapping[str, Mapping[str, Any]], partial_until: str | None = None) -> Loaded:
    """The config with the type and the options of a model for each step that takes its model from a registry.

    `partial_until` is the latest event time that the models have learned: windows up to it lack records.
    """
    found = list(_places(loaded))
    if lacking := [step for step, _, _ in found if step not in models]:
        message = f"the model of step {lacking[0]!r} is not known here: give its `type` and options instead of `from`"
        raise MillstreamError(message)
    sets: list[Setting] = [(".".join(map(str, path)), dict(models[step])) for step, path, _ in found]
    if partial_until is not None:
        sets.append(("partial_until", partial_until))
    return loaded.changed(sets) if sets else loaded


def _model_of(version: ModelVersion) -> Mapping[str, Any]:
    return version.model


def _places(loaded: Loaded) -> Iterator[tuple[str, KeyPath, str]]:
    """For each step with a model from a registry its name, the key path of the model, and the name of the version."""
    steps = [step for step in loaded.config.steps if isinstance(getattr(step.config, "model", None), RegisteredModel)]
    paths = _mappings(loaded.document.data.get("pipeline"), ("pipeline",))
    for step, path in zip(steps, paths, strict=True):
        yield step.name, path, step.config.model.uri


def _mappings(data: Any, path: KeyPath) -> Iterator[KeyPath]:
    """The key paths of mappings that name a version, in the order of the config."""
    if isinstance(data, Mapping) and path[-1] == "model" and "from" in data and "type" not in data:
        yield path
    elif isinstance(data, Mapping | list):
        for key, value in data.items() if isinstance(data, Mapping) else enumerate(data):
            yield from _mappings(value, (*path, key))

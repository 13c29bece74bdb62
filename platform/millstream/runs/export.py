"""Export of models: a version in the registry of MLflow. This module is imported only when it is used."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from millstream.config.load import Loaded
from millstream.config.pipeline import RUN_NAME
from millstream.errors import ConfigError
from millstream.extras import require
from millstream.registry.artefact import Artefact
from millstream.registry.client import Registry
from millstream.registry.description import records_of
from millstream.registry.failures import store_failures_as_errors
from millstream.registry.settings import quietly, tracking_uri
from millstream.registry.source_run import SourceRun
from millstream.registry.versions import RegisteredVersion
from millstream.runs.directory import RunDirectory
from millstream.runs.model_versions import newest_artefact
from millstream.runs.watch.mlflow_provenance import code_tags, config_params, source_datasets, trained_partitions

__all__ = ["Origin", "check_name", "export_artefact", "export_model", "register_model", "tags_of"]


@dataclass(frozen=True)
class Origin:
    """The origin of a version: the command that makes it, tags, and the MLflow run to which it belongs.

    Without an MLflow run, or with one that the store does not have, one is made that has the command in its name.
    """

    command: str
    tags: Mapping[str, str]
    run: str | None


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a model, or a machine without MLflow."""
    require("mlflow", "the registry of models")
    if not re.match(RUN_NAME, name):
        message = f"a model has a name of letters, digits, `.`, `_` and `-`, at most 100, not {name!r}"
        raise ConfigError(message)


def export_model(directory: RunDirectory, loaded: Loaded, name: str, step: str | None = None) -> RegisteredVersion:
    """Register the model of the newest checkpoint as the next version of the model `name`.

    The version belongs to the MLflow run of the run directory, if it has one. A model that is the newest version
    already is not registered a second time.
    """
    check_name(name)
    uri = tracking_uri(loaded.config.mlflow or None, os.environ)

    def register() -> RegisteredVersion:
        with store_failures_as_errors(uri):
            return register_model(Registry(uri), directory, loaded, name, step)

    with loaded.redacting():
        return quietly(register)


def export_artefact(artefact: Artefact, loaded: Loaded, name: str, origin: Origin) -> RegisteredVersion:
    """Register an artefact that belongs to no run directory, as the next version of the model `name`."""
    check_name(name)
    uri = tracking_uri(loaded.config.mlflow or None, os.environ)

    def register() -> RegisteredVersion:
        with store_failures_as_errors(uri):
            return _register(Registry(uri), artefact, loaded, name, origin)

    with loaded.redacting():
        return quietly(register)


def register_model(
    registry: Registry, directory: RunDirectory, loaded: Loaded, name: str, step: str | None = None
) -> RegisteredVersion:
    """Register the model of the newest checkpoint in this registry."""
    artefact = newest_artefact(directory, loaded, step)
    run = json.loads(directory.mlflow.read_text())["run"] if directory.mlflow.exists() else None
    tags = {**tags_of(directory), "millstream.delivery": str(loaded.config.guarantee.delivery)}
    return _register(registry, artefact, loaded, name, Origin("export", tags, run))


def tags_of(directory: RunDirectory) -> dict[str, str]:
    """The tag that all versions of a run have."""
    return {"millstream.run": str(directory.path.absolute())}


def _register(registry: Registry, artefact: Artefact, loaded: Loaded, name: str, origin: Origin) -> RegisteredVersion:
    config, version = loaded.config, artefact.version
    experiment = config.mlflow.experiment if config.mlflow else config.name
    source = SourceRun(
        f"{origin.command} {name}",
        {**code_tags(loaded), **origin.tags},
        config_params(loaded),
        loaded.redact(yaml.safe_dump(loaded.resolved(), sort_keys=False, allow_unicode=True)),
        source_datasets(loaded, trained_partitions(version)),
    )
    number = registry.register(artefact, name, experiment=experiment, run=origin.run, source=source, tags=origin.tags)
    return RegisteredVersion(name, number, version.digest, records_of(version), loaded.redact(registry.uri))

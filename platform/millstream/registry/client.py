"""Registered versions: an artefact becomes a version of a model in MLflow, and is fetched by name, version or alias."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.errors import AlteredCheckpoint, ConfigError, MillstreamError
from millstream.log.epochs import Scores
from millstream.registry.artefact import DATA, Artefact
from millstream.registry.description import DIGEST, metrics_of, model_text, params_of, records_of, tags_of, version_text
from millstream.registry.experiments import open_experiment
from millstream.registry.promotion import PROMOTED, Promotion
from millstream.registry.source_run import SourceRun
from millstream.state.model_version import ModelVersion

__all__ = ["Registry", "parsed_uri"]

_NOT_FOUND = "RESOURCE_DOES_NOT_EXIST"
_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:/(?P<version>\d+)|@(?P<alias>[^/@]+))")
_VERSIONS = "mlflow.modelVersions"
"""The tag by which MLflow's UI finds the registered versions of a logged model."""
_OF_RUN = ("mlflow.user", "mlflow.source.name", "mlflow.source.type")


@dataclass(frozen=True)
class ModelUri:
    """The parts of an address in the registry: of a version by its number, or by an alias."""

    name: str
    version: int | None
    alias: str | None


def parsed_uri(uri: str) -> ModelUri:
    """The parts of `models:/NAME/VERSION` or `models:/NAME@ALIAS`.

    >>> parsed_uri("models:/news@champion")
    ModelUri(name='news', version=None, alias='champion')
    """
    found = _URI.fullmatch(uri)
    if found is None:
        message = f"{uri!r} names no version of a model; write models:/NAME/VERSION or models:/NAME@ALIAS"
        raise MillstreamError(message)
    return ModelUri(found["name"], None if found["version"] is None else int(found["version"]), found["alias"])


class Registry:
    """The registry of models in one store of MLflow, given by its address."""

    def __init__(self, uri: str) -> None:
        from mlflow import MlflowClient

        self.uri = uri
        self._client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)

    def register(
        self,
        artefact: Artefact,
        name: str,
        *,
        experiment: str,
        run: str | None,
        source: SourceRun,
        tags: Mapping[str, str],
    ) -> int:
        """Register an artefact as the next version of the model `name`, and return the number of the version.

        If the newest version has the same digest and positions, it stays the newest one, and its number is returned.
        `run` is the id of the MLflow run to which the model belongs. Without it, and if the store does not have this
        run, the run `source` is made.
        """
        version, scores = artefact.version, artefact.scores
        described = {**tags, **tags_of(version)}
        self._make_model(name, version)
        newest = self._newest(name)
        if newest is not None and all(newest.tags.get(key) == value for key, value in described.items()):
            return int(newest.version)
        group = open_experiment(self._client, experiment)
        run_id = run if run is not None and self._has_run(run) else source.make(self._client, group)
        model = self._log_model(artefact, name, group, run_id, described)
        self._log_metrics(run_id, model.model_id, version, scores)
        # with a run and a path, MLflow needs nothing of the store that is set for the whole process
        made = self._client.create_model_version(
            name,
            source=model.artifact_location,
            run_id=run_id,
            tags=described,
            model_id=model.model_id,
            description=version_text(version, scores),
        )
        link = [{"name": name, "version": int(made.version)}]
        self._client.set_logged_model_tags(model.model_id, {_VERSIONS: json.dumps(link)})
        return int(made.version)

    def _has_run(self, run: str) -> bool:
        """True if the store has this run; a run directory may know one of another store, or one that was deleted."""
        from mlflow.exceptions import MlflowException

        try:
            return bool(self._client.get_run(run).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False

    def _log_model(self, artefact: Artefact, name: str, experiment: str, run: str, tags: Mapping[str, str]) -> Any:
        """Write the artefact as a logged model of a run, with the user and the source of the run."""
        origin = {key: value for key, value in self._client.get_run(run).data.tags.items() if key in _OF_RUN}
        model = self._client.create_logged_model(
            experiment, name, source_run_id=run, tags={**tags, **origin}, params=params_of(artefact.version)
        )
        with tempfile.TemporaryDirectory(prefix="millstream-register-") as folder:
            artefact.write(Path(folder) / "model")
            self._client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
        self._client.finalize_logged_model(model.model_id, "READY")
        return model

    def _log_metrics(self, run: str, model: str, version: ModelVersion, scores: Scores) -> None:
        """Make the logged model an output of its run, with metrics at the number of its records."""
        from mlflow.entities import LoggedModelOutput, Metric

        step, now = records_of(version), int(time.time() * 1000)
        metrics = [
            Metric(name, value, now, step, model_id=model, run_id=run)
            for name, value in metrics_of(version, scores).items()
        ]
        self._client.log_batch(run, metrics=metrics)
        self._client.log_outputs(run, [LoggedModelOutput(model, step)])

    def newest_of(self, name: str, tags: Mapping[str, str]) -> float | None:
        """The time of the newest version with these tags, in seconds since 1970; None if there is none."""
        found = self._client.search_model_versions(f"name = '{name}'")
        times = [each.creation_timestamp for each in found if tags.items() <= dict(each.tags).items()]
        return max(times) / 1000 if times else None

    def fetch(self, uri: str, folder: Path) -> tuple[str, ModelVersion]:
        """Download a version, `models:/NAME/VERSION` or `models:/NAME@ALIAS`, and return it with its address by number.

        A version whose state has another digest than the registry says is refused.
        """
        from mlflow.artifacts import download_artifacts

        registered = self._find(uri)
        place = self._client.get_model_version_download_uri(registered.name, registered.version)
        path = download_artifacts(artifact_uri=f"{place}/{DATA}", dst_path=str(folder), tracking_uri=self.uri)
        try:
            version = ModelVersion.load(Path(path))
        except AlteredCheckpoint as error:
            message = f"{uri}, version {registered.version} at {place}: {str(error).replace(path, DATA)}"
            raise AlteredCheckpoint(f"{message}; register the model again") from None
        expected = registered.tags.get(DIGEST)
        if expected != version.digest:
            message = (
                f"{uri} is version {registered.version} with the digest {expected}, and its arrays have the digest "
                f"{version.digest}: the artefact was altered; register the model again"
            )
            raise AlteredCheckpoint(message)
        return f"models:/{registered.name}/{registered.version}", version

    def address(self, uri: str) -> str | None:
        """The address by number of the version that `uri` names now; None if it names none."""
        registered = self._version_or_none(uri)
        return None if registered is None else f"models:/{registered.name}/{registered.version}"

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let an alias of the model `name` name this version."""
        self._client.set_registered_model_alias(name, alias, str(version))

    def promotion(self, name: str) -> Promotion | None:
        """The last promotion of the model `name`; None if there is none, or no such model."""
        from mlflow.exceptions import MlflowException

        try:
            tags = self._client.get_registered_model(name).tags
        except MlflowException as error:
            if error.error_code != _NOT_FOUND:
                raise
            return None
        return Promotion.from_text(name, tags[PROMOTED]) if PROMOTED in tags else None

    def promote(self, promotion: Promotion, alias: str) -> None:
        """Move an alias to the version of a promotion, and let running pipelines follow."""
        self.set_alias(promotion.name, alias, promotion.version)
        self._client.set_registered_model_tag(promotion.name, PROMOTED, promotion.text())

    def _find(self, uri: str) -> Any:
        registered = self._version_or_none(uri)
        if registered is None:
            raise ConfigError(f"{uri}: the registry has no such version; {self._present(parsed_uri(uri).name)}")
        return registered

    def _version_or_none(self, uri: str) -> Any:
        from mlflow.exceptions import MlflowException

        named = parsed_uri(uri)
        try:
            if named.alias is not None:
                return self._client.get_model_version_by_alias(named.name, named.alias)
            return self._client.get_model_version(named.name, str(named.version))
        except MlflowException as error:
            if error.error_code not in (_NOT_FOUND, "INVALID_PARAMETER_VALUE"):
                raise
            return None

    def _present(self, name: str) -> str:
        """The newest version of a model and its aliases, or the command that makes one."""
        newest = self._newest(name)
        if newest is None:
            return f"`millstream export RUN --mlflow {name}` makes one"
        aliases = self._client.get_registered_model(name).aliases
        shown = ", ".join(f"{alias} (version {number})" for alias, number in sorted(aliases.items()))
        return f"its newest version is {newest.version}, and its aliases are: {shown or 'none'}"

    def _make_model(self, name: str, first: ModelVersion) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name, description=model_text(name, first))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _newest(self, name: str) -> Any:
        found = self._client.search_model_versions(f"name = '{name}'", max_results=1, order_by=["version_number DESC"])
        return found[0] if found else None

"""Registered versions: an artefact becomes a version of a model in MLflow, and is fetched by name, version or alias."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.errors import MillstreamError
from millstream.registry.artefact import DATA, Artefact
from millstream.state.model_version import ModelVersion

__all__ = ["Registry"]

_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:/(?P<version>\d+)|@(?P<alias>[^/@]+))")
_DIGEST = "millstream.digest"


class Registry:
    """The registry of models in one store of MLflow, given by its address."""

    def __init__(self, uri: str) -> None:
        from mlflow import MlflowClient

        self.uri = uri
        self._client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)

    def register(
        self, artefact: Artefact, name: str, *, experiment: str, run: str | None = None, tags: Mapping[str, str]
    ) -> int:
        """Register an artefact as the next version of the model `name`, and return the number of the version.

        If the newest version has the same digest and positions, it stays the newest one, and its number is returned.
        `run` is the id of the MLflow run to which the model belongs; without one, a run of the experiment is made.
        """
        described = {**tags, **_tags(artefact.version)}
        self._make_model(name)
        newest = self._newest(name)
        if newest is not None and all(newest.tags.get(key) == value for key, value in described.items()):
            return int(newest.version)
        group = self._experiment(experiment)
        run = run or self._make_run(group, name, described)
        params = {"step": artefact.version.step}
        model = self._client.create_logged_model(group, name, source_run_id=run, tags=described, params=params)
        with tempfile.TemporaryDirectory(prefix="millstream-register-") as folder:
            artefact.write(Path(folder) / "model")
            self._client.log_model_artifacts(model.model_id, str(Path(folder) / "model"))
        self._client.finalize_logged_model(model.model_id, "READY")
        # with a run and a path, MLflow needs nothing of the store that is set for the whole process
        version = self._client.create_model_version(
            name, source=model.artifact_location, run_id=run, tags=described, model_id=model.model_id
        )
        return int(version.version)

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
        version = ModelVersion.load(Path(path))
        expected = registered.tags.get(_DIGEST)
        if expected != version.digest:
            message = (
                f"{uri} is version {registered.version} with the digest {expected}, and its arrays have the digest "
                f"{version.digest}: the artefact was altered; register the model again"
            )
            raise MillstreamError(message)
        return f"models:/{registered.name}/{registered.version}", version

    def _find(self, uri: str) -> Any:
        from mlflow.exceptions import MlflowException

        found = _URI.fullmatch(uri)
        if found is None:
            message = f"{uri!r} names no version of a model; write models:/NAME/VERSION or models:/NAME@ALIAS"
            raise MillstreamError(message)
        try:
            if found["alias"] is not None:
                return self._client.get_model_version_by_alias(found["name"], found["alias"])
            return self._client.get_model_version(found["name"], found["version"])
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            message = (
                f"{uri}: the registry has no such version; `millstream export RUN --mlflow {found['name']}` makes one"
            )
            raise MillstreamError(message) from None

    def _make_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _make_run(self, experiment: str, name: str, tags: Mapping[str, str]) -> str:
        run: str = self._client.create_run(experiment, run_name=f"export {name}", tags=dict(tags)).info.run_id
        self._client.set_terminated(run)
        return run

    def _newest(self, name: str) -> Any:
        found = self._client.search_model_versions(f"name = '{name}'", max_results=1, order_by=["version_number DESC"])
        return found[0] if found else None

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)


def _tags(version: ModelVersion) -> dict[str, str]:
    """The tags of a version: its digest, the positions up to which it was trained, and the cuts."""
    positions = {source: {name: part.upto for name, part in parts.items()} for source, parts in version.trained.items()}
    return {
        _DIGEST: version.digest,
        "millstream.trained": json.dumps(positions, ensure_ascii=False),
        "millstream.cuts": version.cuts or "bounded",
        "millstream.step": version.step,
    }

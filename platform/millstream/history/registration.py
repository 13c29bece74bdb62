"""Registration of a trained model, as a version in the registry of MLflow."""

from __future__ import annotations

from millstream.config.load import Loaded
from millstream.history.backfill import checked_way
from millstream.history.train import Trained
from millstream.log.epochs import Scores
from millstream.registry.versions import RegisteredVersion
from millstream.runs.export import export_artefact
from millstream.runs.model_versions import artefact_of

__all__ = ["register"]


def register(trained: Trained, loaded: Loaded, name: str, run: str | None = None) -> RegisteredVersion:
    """Register a trained model as the next version of the model `name`, unless it is the newest one already.

    `run` is the MLflow run to which the version belongs; None: one of its own.
    """
    version = trained.version
    way = checked_way(loaded, version.step, "training on a history")
    artefact = artefact_of(version, loaded, (*way.steps, way.model)[0].records)
    result = trained.result
    scores = Scores(result["labelled"], result["correct"]) if "correct" in result else Scores()
    return export_artefact(artefact, loaded, name, {"millstream.training": str(trained.path.absolute())}, scores, run)
